/* library-misuse.c - use <megatron/train.h> in a wrong way; a test compiles it
 *
 *     library-misuse CASE [RANK] ARGUMENT...
 *
 * Do what CASE says, on rank RANK alone if it is not -1, print the text of the call that fails,
 * "misuse: TEXT", on the rank that should print it, and end with 0 if the call failed.
 */

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <megatron/train.h>

enum { SEQ = 8, VOCAB = 32 };

static const char *misuse;
static struct mg_train *train;
static struct mg_error err;

static int is (const char *name)
{
    return strcmp (misuse, name) == 0;
}

/* --- samples --- */

static int fill (void *arg, int64_t number, struct mg_train_sample *sample, struct mg_error *why)
{
    int32_t row[SEQ + 2];
    float weight[SEQ];
    int rc = 0;

    (void)arg;
    for (int i = 0; i < SEQ + 2; i++) {
        row[i] = (int32_t)((number + i) % VOCAB);
        if (i < SEQ)
            weight[i] = is ("weight") ? -2 : 1;
    }
    if (is ("vocabulary"))
        row[3] = VOCAB + 5;
    if (is ("gives-up"))
        return mg_error_set (why, 5, "the disk is gone");
    if (is ("no-text"))
        return -1;
    if (is ("inside"))
        return mg_train_step (train, NULL, why);
    if (is ("too-long"))
        return mg_train_fill (sample, "tokens", MG_INT32, row, SEQ + 1, why);
    if (is ("name"))
        return mg_train_fill (sample, "token", MG_INT32, row, SEQ, why);
    if (is ("type"))
        return mg_train_fill (sample, "tokens", MG_INT64, row, SEQ, why);
    rc |= mg_train_fill (sample, "tokens", MG_INT32, row, SEQ, why);
    if (is ("twice-filled"))
        rc |= mg_train_fill (sample, "tokens", MG_INT32, row, SEQ, why);
    if (!is ("no-labels"))
        rc |= mg_train_fill (sample, "labels", MG_INT32, row + 1, is ("shorter") ? 5 : SEQ, why);
    return rc | mg_train_fill (sample, "loss_mask", MG_FLOAT32, weight, SEQ, why);
}

static struct mg_train_samples samples_of (int rank)
{
    struct mg_train_samples samples = MG_TRAIN_SAMPLES_INIT;
    const char *launched = getenv ("OMPI_COMM_WORLD_RANK");
    int here = rank < 0 || (launched && atoi (launched) == rank);

    samples.count = is ("too-few") || (is ("count") && here) ? 7
                    : is ("endless")                        ? INT64_MAX
                    : is ("no-samples")                     ? 0
                                                            : 1000;
    samples.fill = is ("no-function") ? NULL : fill;
    if (is ("size"))
        samples.size = 0;
    return samples;
}

static int set_samples (int rank)
{
    struct mg_train_samples samples = samples_of (rank);

    if (is ("none"))
        return 0;
    if (is ("part"))
        return mg_train_set_samples (train, "training", &samples, &err);
    if (mg_train_set_samples (train, "train", &samples, &err) < 0)
        return -1;
    if (is ("twice-set"))
        return mg_train_set_samples (train, "train", &samples, &err);
    return is ("no-validation") ? 0 : mg_train_set_samples (train, "validation", &samples, &err);
}

/* --- calls --- */

static const char weight_name[] = "decoder.final_layernorm.weight";

/* Calls that are wrong before the first step: 1 if the case is another one. */
static int call_early (void)
{
    struct mg_train_samples samples = samples_of (0);
    double loss;

    if (is ("setup-twice"))
        return mg_train_setup (train, &err);
    if (is ("late-samples"))
        return mg_train_set_samples (train, "test", &samples, &err);
    if (is ("early-loss"))
        return mg_train_loss (train, "lm loss", &loss, &err);
    return 1;
}

/* Wrong after the first step, but the run may go on. */
static int call_wrong (void)
{
    struct mg_train_step step = { .size = 3 };
    struct mg_train_param param = MG_TRAIN_PARAM_INIT;
    float value[64] = { 0 };
    double loss;

    if (is ("step-size"))
        return mg_train_step (train, &step, &err);
    if (is ("loss"))
        return mg_train_loss (train, "lm_loss", &loss, &err);
    if (is ("set"))
        return mg_train_evaluate (train, "valid", NULL, &err);
    if (is ("no-validation"))
        return mg_train_evaluate (train, "validation", NULL, &err);
    if (is ("no-save") || is ("other-call"))
        return mg_train_save (train, &err);
    if (is ("param"))
        return mg_train_get_param (train, "decoder.final_norm.weight", &param, &err);
    if (is ("other-argument"))
        return mg_train_get_param (train, "decoder.final_layernorm.bias", &param, &err);
    if (is ("param-name"))
        return mg_train_param_name (train, 1000, &err) ? 0 : -1;
    if (is ("values"))
        return mg_train_read_param (train, weight_name, 0, value, 64, &err);
    if (is ("null-values"))
        return mg_train_read_param (train, weight_name, 0, NULL, 16, &err);
    if (is ("root"))
        return mg_train_read_param (train, weight_name, -1, value, 16, &err);
    value[2] = NAN;
    if (is ("nan"))
        return mg_train_write_part (train, weight_name, value, 16, &err);
    return 1;
}

/* What the other ranks call then. */
static int call_right (void)
{
    struct mg_train_param param = MG_TRAIN_PARAM_INIT;
    float value[16];

    if (is ("other-argument"))
        return mg_train_get_param (train, weight_name, &param, &err);
    if (is ("root"))
        return mg_train_read_param (train, weight_name, 1, value, 16, &err);
    return mg_train_step (train, NULL, &err);
}

/* After the last step. */
static int call_late (void)
{
    if (is ("step-late"))
        return mg_train_step (train, NULL, &err);
    if (is ("run-late"))
        return mg_train_run (train, &err);
    if (is ("write-late"))
        return mg_train_write_param (train, weight_name, 0, NULL, 0, &err);
    return mg_train_finish (train, &err);
}

static void report (void)
{
    if (mg_train_should_report (train, &err))
        fprintf (stderr, "misuse: %s\n", err.text);
    err.text[0] = '\0';
}

static int use (int rank)
{
    int rc;

    if (is ("early-step"))
        return mg_train_step (train, NULL, &err);
    if (is ("early-stop"))
        return mg_train_stop (train, &err);
    if (set_samples (rank) < 0 || mg_train_setup (train, &err) < 0)
        return -1;
    if ((rc = call_early ()) <= 0)
        return rc;
    if ((rc = mg_train_step (train, NULL, &err)) < 0) {
        if (is ("after-failure"))
            rc = mg_train_step (train, NULL, &err);
        return rc;
    }
    rc = rank < 0 || mg_train_rank (train) == rank ? call_wrong () : call_right ();
    if (rc == 0)
        return 0;
    if (rc < 0) {
        report ();
        if (mg_train_run (train, &err) < 0)
            fprintf (stderr, "misuse: the run does not go on: ");
        return -1;
    }
    return mg_train_finish (train, &err) < 0 ? -1 : call_late ();
}

int main (int argc, char **argv)
{
    int rank = argc > 2 ? atoi (argv[2]) : -1, status = 0;
    FILE *log = fopen ("/dev/null", "w");

    if (argc < 3)
        return 2;
    misuse = argv[1];
    if (is ("fill-outside"))
        return mg_train_fill (NULL, "tokens", MG_INT32, NULL, 0, &err) < 0
               && fprintf (stderr, "misuse: %s\n", err.text) < 0;
    train = mg_train_create (argc - 2, argv + 2, log, stderr, &err);
    if (!train || use (rank) >= 0)
        status = 1; // nothing was wrong
    else if (err.text[0])
        report ();
    fflush (NULL);
    mg_train_destroy (train);
    return status;
}
