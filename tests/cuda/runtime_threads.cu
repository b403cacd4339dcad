/* runtime_threads.cu - calls of the CUDA runtime from several host threads at the same time
 *
 * Each thread has a stream and a buffer, half of the threads on device 1 where there is one.  In a
 * round, a thread adds 1 to its buffer, and then adds the buffer of its neighbour of the round
 * before.  Events order the streams.  The program writes TAP.
 */

#include <stdio.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include <cuda_runtime.h>

enum { THREADS = 6, ROUNDS = 40, COUNT = 64 };

static int checks, failed;

static void report (bool good, const char *name)
{
    failed += !good;
    printf ("%s %d - %s\n", good ? "ok" : "not ok", ++checks, name);
}

__global__ void __launch_bounds__ (64) step (unsigned *out, const unsigned *mine,
                                             const unsigned *other)
{
    out[threadIdx.x] = mine[threadIdx.x] + 1 + 3 * other[threadIdx.x];
}

/* Threads meet here; all of them go on when the last one has come. */
struct meeting {
    std::mutex mutex;
    std::condition_variable all;
    int here = 0, turn = 0;

    void meet ()
    {
        std::unique_lock<std::mutex> hold (mutex);
        int now = turn;

        if (++here == THREADS) {
            here = 0;
            turn++;
            all.notify_all ();
        }
        all.wait (hold, [&] { return turn != now; });
    }
};

static struct worker {
    unsigned *buffers[2]; /* round i reads [i % 2] and writes the other */
    cudaEvent_t written[2], read;
    cudaStream_t stream;
    std::atomic<int> called;
    bool good;
} workers[THREADS];
static struct meeting meeting;
static int devices;

static void count_call (void *arg)
{
    ((struct worker *)arg)->called++;
}

static int device_of (int rank)
{
    return devices > 1 && rank >= THREADS / 2;
}

/* The neighbour of a thread is one of the same device. */
static int neighbour_of (int rank)
{
    int size = devices > 1 ? THREADS / 2 : THREADS, first = rank / size * size;

    return first + (rank - first + 1) % size;
}

static bool run_round (struct worker *w, const struct worker *n, int round, int rank)
{
    cudaLaunchConfig_t config = {};
    bool good = true;

    /* Nobody may write what its reader of the round before still reads. */
    for (int i = 0; i < THREADS; i++)
        if (neighbour_of (i) == rank && round > 0)
            good = good && cudaStreamWaitEvent (w->stream, workers[i].read, 0) == cudaSuccess;
    good = good && cudaStreamWaitEvent (w->stream, n->written[round % 2], 0) == cudaSuccess;
    meeting.meet (); /* events are recorded anew only after all have told streams to wait */
    config.gridDim = dim3 (1);
    config.blockDim = dim3 (COUNT);
    config.stream = w->stream;
    good = good
           && cudaLaunchKernelEx (&config, step, w->buffers[1 - round % 2],
                                  (const unsigned *)w->buffers[round % 2],
                                  (const unsigned *)n->buffers[round % 2])
                  == cudaSuccess
           && cudaEventRecord (w->written[1 - round % 2], w->stream) == cudaSuccess
           && cudaEventRecord (w->read, w->stream) == cudaSuccess
           && cudaLaunchHostFunc (w->stream, count_call, w) == cudaSuccess;
    meeting.meet ();
    return good;
}

static void work (int rank)
{
    struct worker *w = &workers[rank], *n = &workers[neighbour_of (rank)];

    w->good = cudaSetDevice (device_of (rank)) == cudaSuccess
              && cudaStreamCreateWithPriority (&w->stream, cudaStreamNonBlocking, -rank)
                     == cudaSuccess
              && cudaEventCreate (&w->read) == cudaSuccess;
    for (int i = 0; i < 2; i++)
        w->good = w->good && cudaMalloc ((void **)&w->buffers[i], COUNT * 4) == cudaSuccess
                  && cudaEventCreate (&w->written[i]) == cudaSuccess;
    w->good = w->good && cudaMemsetAsync (w->buffers[0], 0, COUNT * 4, w->stream) == cudaSuccess
              && cudaEventRecord (w->written[0], w->stream) == cudaSuccess;
    meeting.meet ();
    for (int i = 0; i < ROUNDS; i++)
        w->good = run_round (w, n, i, rank) && w->good;
    while (cudaEventQuery (w->read) == cudaErrorNotReady) /* as the library waits */
        usleep (50);
    w->good = w->good && cudaStreamSynchronize (w->stream) == cudaSuccess;
    meeting.meet ();
}

static bool results_right ()
{
    unsigned value = 0, host[COUNT];
    bool good = true;

    for (int i = 0; i < ROUNDS; i++) /* all buffers have the same numbers */
        value = value + 1 + 3 * value;
    for (int i = 0; i < THREADS; i++) {
        good = good
               && cudaMemcpy (host, workers[i].buffers[ROUNDS % 2], sizeof host, cudaMemcpyDefault)
                      == cudaSuccess;
        for (unsigned h : host)
            good = good && h == value;
    }
    return good;
}

int main (void)
{
    std::vector<std::thread> threads;
    bool good = true, called = true;
    int current = -1;

    cudaGetDeviceCount (&devices);
    for (int i = 0; i < THREADS; i++)
        threads.emplace_back (work, i);
    for (auto &t : threads)
        t.join ();
    for (const struct worker &w : workers) {
        good = good && w.good;
        called = called && w.called == ROUNDS;
    }
    report (good, "no call failed");
    report (called, "each host function was called once");
    report (results_right (), "results are right");
    report (cudaGetDevice (&current) == cudaSuccess && current == 0,
            "threads have current devices of their own");
    printf ("1..%d\n", checks);
    return failed > 0;
}
