/* runtime_query.cpp - what a program learns of CUDA when it starts, a line for each answer
 *
 * With the argument "missing" it calls a function that the double lacks.  It is linked with the
 * toolkit's library as well as with the double.
 */

#include <stdio.h>

#include <cuda_runtime_api.h>

int main (int argc, char **)
{
    int driver = -1, runtime = -1, count = -1;
    size_t free = 0, total = 0;
    cudaDeviceProp prop;
    cudaGraph_t graph;
    cudaError_t e;
    void *p;

    cudaDriverGetVersion (&driver);
    cudaRuntimeGetVersion (&runtime);
    printf ("driver %d runtime %d\n", driver, runtime);
    e = cudaGetDeviceCount (&count);
    printf ("count %d %s\n", count, cudaGetErrorName (e));
    if (e != cudaSuccess) {
        printf ("malloc %s\n", cudaGetErrorName (cudaMalloc (&p, 1)));
        return 0;
    }
    if (argc > 1) {
        cudaGraphCreate (&graph, 0);
        printf ("the call came back\n");
        return 0;
    }
    if (cudaGetDeviceProperties (&prop, 0) == cudaSuccess)
        printf ("capability %d.%d shared %zu\n", prop.major, prop.minor,
                prop.sharedMemPerBlockOptin);
    cudaMemGetInfo (&free, &total);
    printf ("memory %zu of %zu\n", free, total);
    printf ("malloc %s\n", cudaGetErrorName (cudaMalloc (&p, 3 << 20)));
    cudaMemGetInfo (&free, &total);
    printf ("memory %zu of %zu\n", free, total);
    printf ("malloc %s\n", cudaGetErrorName (cudaMalloc (&p, total)));
    return 0;
}
