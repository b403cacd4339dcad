/* library-train.c - train through the public interface alone; a test compiles it
 *
 * The program's threads have modes of their own: rounding upwards in the first, downwards in the
 * others, denormals in all.  After each call of the library they must be as they were.
 */

#include <fenv.h>
#include <float.h>
#include <stdio.h>

#include <megatron/train.h>

enum { THREADS = 2 };

static void set_modes (void)
{
#pragma omp parallel num_threads (THREADS)
    fesetround (FE_DOWNWARD);
    fesetround (FE_UPWARD);
}

/* Threads that have denormals, and round as they were told. */
static int count_kept (void)
{
    int kept = 0, own = fegetround () == FE_UPWARD;

#pragma omp parallel num_threads (THREADS) reduction (+ : kept)
    {
        volatile float least = FLT_MIN, half = 0.5f;
        int rounding = fegetround ();

        kept += least * half > 0 && (rounding == FE_UPWARD || rounding == FE_DOWNWARD);
    }
    return own ? kept : 0;
}

/* 'rc', or -1 if a mode is lost. */
static int check_modes (int rc, const char *call)
{
    int kept = count_kept ();

    if (kept == THREADS)
        return rc;
    fprintf (stderr, "library-train: %s: %d of %d threads have their mode\n", call, kept,
             THREADS);
    return -1;
}

int main (int argc, char **argv)
{
    struct mg_error err = { "" };
    struct mg_train *train;
    int status = 0;

    set_modes ();
    train = mg_train_create (argc, argv, stdout, stderr, &err);
    if (check_modes (0, "mg_train_create") < 0 || !train
        || check_modes (mg_train_setup (train, &err), "mg_train_setup") < 0
        || check_modes (mg_train_run (train, &err), "mg_train_run") < 0) {
        status = 1;
        if (mg_train_should_report (train, &err))
            fprintf (stderr, "library-train: %s\n", err.text);
        fflush (NULL);
        mg_train_abort (train, 1);
    } else
        status = mg_train_status (train);
    mg_train_destroy (train);
    return check_modes (0, "mg_train_destroy") < 0 ? 1 : status;
}
