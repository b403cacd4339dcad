/* comm-mpi.c - MPI's own all-reduce, to compare bench/comm with */

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static const size_t sizes[] = { 8, 4 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20 };

static void measure (float *buf, size_t bytes, int rank)
{
    int rounds = bytes > 1 << 20 ? 5 : 10, repeat = bytes > 1 << 20 ? 4 : 100;
    double best = 1e9;

    for (int round = 0; round < rounds; round++) {
        double start;

        MPI_Barrier (MPI_COMM_WORLD);
        start = MPI_Wtime ();
        for (int i = 0; i < repeat; i++)
            MPI_Allreduce (MPI_IN_PLACE, buf, (int)(bytes / 4), MPI_FLOAT, MPI_SUM,
                           MPI_COMM_WORLD);
        start = (MPI_Wtime () - start) / repeat;
        best = start < best ? start : best;
    }
    if (rank == 0)
        printf ("all-reduce %zu %.2f\n", bytes, best * 1e6);
}

int main (int argc, char **argv)
{
    size_t n = sizeof (sizes) / sizeof (sizes[0]);
    int rank;
    float *buf = calloc (1, sizes[n - 1]);

    MPI_Init (&argc, &argv);
    MPI_Comm_rank (MPI_COMM_WORLD, &rank);
    for (size_t i = 0; buf && i < n; i++)
        measure (buf, sizes[i], rank);
    free (buf);
    return MPI_Finalize ();
}
