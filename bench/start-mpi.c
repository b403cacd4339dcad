/* start-mpi.c - MPI's own start and end, for comparison with bench/start */

#include <mpi.h>

int main (void)
{
    int level;

    if (MPI_Init_thread (NULL, NULL, MPI_THREAD_FUNNELED, &level) != MPI_SUCCESS)
        return 1;
    return MPI_Finalize () != MPI_SUCCESS;
}
