/* train.c - a model of one's own size learns a task that this program makes up
 *
 *     cc -o train train.c $(pkg-config --cflags --libs megatron)
 *     srun -n8 --megatron-tp=2 --megatron-pp=2 ./train
 *     mpirun -n 8 ./train --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2
 *
 * The task: rows like Fibonacci's, each number the sum of the two before it, modulo 13.  The model
 * sees the numbers up to a position and has to say the next one.  More arguments are those of
 * megatron-train(1).  With "--save DIR --load DIR", the same command goes on where it stopped, also
 * on another number of ranks.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <megatron/megatron.h>

enum { MODULUS = 13, LENGTH = 16, TRAINED = 100 };

/* What this program adds to the arguments: the model, and how it is trained. */
static char *preset[] = {
    "--num-layers", "4", "--hidden-size", "64", "--num-attention-heads", "4",
    "--seq-length", "16", "--vocab-size", "13", "--position-embedding-type", "rope",
    "--micro-batch-size", "8", "--global-batch-size", "32", "--train-iters", "200",
    "--lr", "3e-3", "--lr-decay-style", "cosine", "--lr-warmup-iters", "10",
    "--log-interval", "1000", "--eval-interval", "1000", "--eval-iters", "2",
};
enum { PRESET = sizeof (preset) / sizeof (preset[0]) };

/* Sample 'number' has the first two numbers of a row: those of validation are never trained on. */
static int make_sample (void *arg, int64_t number, struct mg_train_sample *sample,
                        struct mg_error *err)
{
    const int *validation = arg;
    int64_t pairs = MODULUS * MODULUS;
    int64_t pair = *validation ? TRAINED + number % (pairs - TRAINED) : number % TRAINED;
    int32_t row[LENGTH + 1];
    float mask[LENGTH];

    pair = pair * 40 % pairs; /* 40 and 169 have no common divisor: each pair once */
    row[0] = (int32_t)(pair / MODULUS);
    row[1] = (int32_t)(pair % MODULUS);
    for (int i = 2; i <= LENGTH; i++)
        row[i] = (row[i - 1] + row[i - 2]) % MODULUS;
    for (int i = 0; i < LENGTH; i++)
        mask[i] = i > 0; /* nobody can know the second number */
    if (mg_train_fill (sample, "tokens", MG_INT32, row, LENGTH, err) < 0
        || mg_train_fill (sample, "labels", MG_INT32, row + 1, LENGTH, err) < 0)
        return -1;
    return mg_train_fill (sample, "loss_mask", MG_FLOAT32, mask, LENGTH, err);
}

static int set_samples (struct mg_train *train, struct mg_error *err)
{
    static int validation[2] = { 0, 1 };
    struct mg_train_samples samples = MG_TRAIN_SAMPLES_INIT;

    samples.count = INT64_MAX;
    samples.fill = make_sample;
    samples.arg = &validation[0];
    if (mg_train_set_samples (train, "train", &samples, err) < 0)
        return -1;
    samples.arg = &validation[1];
    return mg_train_set_samples (train, "validation", &samples, err);
}

/* All steps that are left, with a line after every 20th. */
static int learn (struct mg_train *train, struct mg_error *err)
{
    struct mg_train_step step = MG_TRAIN_STEP_INIT;
    struct mg_train_evaluation unseen = MG_TRAIN_EVALUATION_INIT;
    int rc;

    while ((rc = mg_train_step (train, &step, err)) > 0) {
        if (step.iteration % 20 != 0)
            continue;
        if ((rc = mg_train_evaluate (train, "validation", &unseen, err)) <= 0)
            break;
        if (mg_train_rank (train) == 0)
            printf ("%5lld: loss %.4f, of unseen rows %.4f, rate %.2e, norm %.3f\n",
                    (long long)step.iteration, step.loss, unseen.loss, step.learning_rate,
                    step.grad_norm);
        fflush (stdout);
    }
    return rc < 0 ? -1 : mg_train_finish (train, err);
}

int main (int argc, char **argv)
{
    struct mg_error err = { "" };
    struct mg_train *train = NULL;
    char **args = calloc ((size_t)(PRESET + argc + 1), sizeof (*args));
    FILE *log = fopen ("/dev/null", "w"); /* or stdout, for Megatron-LM's lines */
    int status = 1;

    if (!args || !log)
        return 1;
    args[0] = argv[0];
    memcpy (args + 1, preset, sizeof (preset));
    memcpy (args + 1 + PRESET, argv + 1, (size_t)argc * sizeof (*args)); /* the later one counts */
    train = mg_train_create (PRESET + argc, args, log, stderr, &err);
    if (train && set_samples (train, &err) == 0 && mg_train_setup (train, &err) == 0
        && learn (train, &err) == 0)
        status = mg_train_status (train);
    else {
        if (mg_train_should_report (train, &err))
            fprintf (stderr, "train: %s\n", err.text);
        mg_train_abort (train, 1);
    }
    mg_train_destroy (train);
    fclose (log);
    free (args);
    return status;
}
