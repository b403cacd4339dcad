/* library-steps.c - take a run step by step through the public interface; a test compiles it
 *
 *     MODE=MODE [NAMES="NAME ..."] [FILE=FILE] library-steps ARGUMENT...
 *
 * The samples count up, from the number of the sample on.  Modes: "samples" takes all steps;
 * "steps" too, with an evaluation after each second one; "files" takes all steps on data in files;
 * "names" prints the names of this rank's parameters; "parts" reads and writes each of NAMES in
 * the middle of the run, whole and in parts, and leaves it as it was; "dump" writes NAMES into FILE
 * behind the last step, "fill" reads them from there; "stop" asks on the last rank, in the function
 * that fills samples, to stop in the third step; "early" ends after two steps; "drop" destroys the
 * run after two steps.
 */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <megatron/train.h>

enum { SEQ = 16, VOCAB = 61 };

struct program {
    struct mg_train *train;
    const char *mode;
    struct mg_error err;
};

static int is (const struct program *p, const char *mode)
{
    return strcmp (p->mode, mode) == 0;
}

static int last_rank (const struct program *p)
{
    return mg_train_rank (p->train) == mg_train_world (p->train) - 1;
}

static int fill (void *arg, int64_t number, struct mg_train_sample *sample, struct mg_error *err)
{
    struct program *p = arg;
    int32_t row[SEQ + 1];

    for (int i = 0; i <= SEQ; i++)
        row[i] = (int32_t)((number * 7 + i * (1 + number % 3)) % VOCAB);
    if (is (p, "stop") && last_rank (p) && mg_train_iteration (p->train) == 2
        && mg_train_stop (p->train, err) < 0)
        return -1;
    if (mg_train_fill (sample, "labels", MG_INT32, row + 1, SEQ - number % 2, err) < 0)
        return -1;
    return mg_train_fill (sample, "tokens", MG_INT32, row, SEQ - number % 2, err);
}

/* --- parameters --- */

/* Each name of the list in turn. */
static int for_names (struct program *p, int (*f) (struct program *p, const char *name, void *arg),
                      void *arg)
{
    char *names = strdup (getenv ("NAMES") ? getenv ("NAMES") : ""), *rest = NULL;
    int rc = 0;

    for (char *name = strtok_r (names, " \n", &rest); name && rc == 0;
         name = strtok_r (NULL, " \n", &rest))
        rc = f (p, name, arg);
    free (names);
    return rc;
}

static int complain (struct program *p, const char *name, const char *what)
{
    return mg_error_set (&p->err, 1, "%s: %s", name, what);
}

/* Is the part what the whole parameter has there? */
static int has_part (const struct mg_train_param *d, const float *whole, const float *part)
{
    for (int64_t i = 0; i < d->part_rows; i++) {
        int64_t row = d->first_row + i / d->run_rows * d->run_stride + i % d->run_rows;

        if (memcmp (part + i * d->part_columns, whole + row * d->columns + d->first_column,
                    (size_t)d->part_columns * sizeof (float))
            != 0)
            return 0;
    }
    return 1;
}

/* Read the whole on each rank, one after the other. */
static int read_everywhere (struct program *p, const char *name, float *whole, int64_t n)
{
    for (int root = 0; root < mg_train_world (p->train); root++) {
        if (mg_train_read_param (p->train, name, root, whole, n, &p->err) < 0)
            return -1;
    }
    return 0;
}

/* Negate it part by part, compare, and write it back from the last rank. */
static int exchange (struct program *p, const char *name, const struct mg_train_param *d,
                     float *whole, float *part, float *negated)
{
    int64_t n = d->rows * d->columns, here = d->part_rows * d->part_columns;

    if (read_everywhere (p, name, whole, n) < 0
        || mg_train_read_part (p->train, name, part, here, &p->err) < 0)
        return -1;
    if (!has_part (d, whole, part))
        return complain (p, name, "a part is not that of the whole");
    for (int64_t i = 0; i < here; i++)
        part[i] = -part[i];
    if (mg_train_write_part (p->train, name, part, here, &p->err) < 0
        || read_everywhere (p, name, negated, n) < 0)
        return -1;
    for (int64_t i = 0; i < n; i++)
        negated[i] = -negated[i];
    if (memcmp (whole, negated, (size_t)n * sizeof (float)) != 0)
        return complain (p, name, "parts that were written are not read");
    return mg_train_write_param (p->train, name, mg_train_world (p->train) - 1, whole, n,
                                 &p->err);
}

static int try_parts (struct program *p, const char *name, void *arg)
{
    struct mg_train_param d = MG_TRAIN_PARAM_INIT;
    float *value;
    size_t n;
    int rc;

    (void)arg;
    if (mg_train_get_param (p->train, name, &d, &p->err) < 0)
        return -1;
    n = (size_t)(d.rows * d.columns);
    value = malloc (3 * n * sizeof (*value));
    rc = exchange (p, name, &d, value, value + n, value + 2 * n);
    free (value);
    return rc;
}

/* Between a file, on the last rank or on the first, and the model. */
static int move (struct program *p, const char *name, void *arg)
{
    struct mg_train_param d = MG_TRAIN_PARAM_INIT;
    FILE *file = arg;
    int dump = is (p, "dump"), root = dump ? mg_train_world (p->train) - 1 : 0, rc = 0;
    int here = mg_train_rank (p->train) == root;
    float *value;
    int64_t n;

    if (mg_train_get_param (p->train, name, &d, &p->err) < 0)
        return -1;
    n = d.rows * d.columns;
    value = malloc ((size_t)n * sizeof (*value));
    if (dump)
        rc = mg_train_read_param (p->train, name, root, value, n, &p->err);
    else if (here && fread (value, sizeof (*value), (size_t)n, file) != (size_t)n)
        rc = complain (p, name, "the file is too short");
    if (rc == 0 && !dump)
        rc = mg_train_write_param (p->train, name, root, value, n, &p->err);
    if (rc == 0 && dump && here && fwrite (value, sizeof (*value), (size_t)n, file) != (size_t)n)
        rc = complain (p, name, "the file cannot be written");
    free (value);
    return rc;
}

static int move_all (struct program *p)
{
    const char *path = getenv ("FILE");
    int dump = is (p, "dump"), rank = mg_train_rank (p->train), rc;
    int here = rank == (dump ? mg_train_world (p->train) - 1 : 0);
    FILE *file = here ? fopen (path, dump ? "w" : "r") : NULL;

    if (here && !file)
        return complain (p, path, "cannot be opened");
    rc = for_names (p, move, file);
    if (file)
        fclose (file);
    return rc;
}

static int print_names (struct program *p)
{
    int n = mg_train_num_params (p->train);

    for (int i = 0; i < n; i++) {
        const char *name = mg_train_param_name (p->train, i, &p->err);

        if (!name)
            return -1;
        printf ("%s\n", name);
    }
    return mg_train_param_name (p->train, n, NULL) ? complain (p, "names", "one too many") : 0;
}

/* --- the run --- */

static int look (struct program *p, const struct mg_train_step *step)
{
    struct mg_train_evaluation e = MG_TRAIN_EVALUATION_INIT;
    double loss = -1;

    if (mg_train_loss (p->train, "lm loss", &loss, &p->err) < 0)
        return -1;
    if (loss != step->loss || step->iteration != mg_train_iteration (p->train))
        return complain (p, "a step", "is not the last one");
    if (is (p, "parts") && step->iteration == 2)
        return for_names (p, try_parts, NULL);
    if (is (p, "steps") && step->iteration % 2 == 0) {
        if (mg_train_evaluate (p->train, "validation", &e, &p->err) < 0)
            return -1;
        if (mg_train_rank (p->train) == 0)
            printf ("evaluation %.4f of %" PRId64 "\n", e.loss, e.samples);
    }
    return 0;
}

static int take_steps (struct program *p)
{
    struct mg_train_step step = MG_TRAIN_STEP_INIT;
    int rc;

    while ((rc = mg_train_step (p->train, &step, &p->err)) > 0) {
        if (mg_train_rank (p->train) == 0)
            printf ("step %" PRId64 ": loss %.4f\n", step.iteration, step.loss);
        fflush (stdout);
        if (look (p, &step) < 0)
            return -1;
        if ((is (p, "early") || is (p, "drop")) && step.iteration == 2)
            return 0;
    }
    return rc;
}

static int run (struct program *p)
{
    struct mg_train_samples samples = MG_TRAIN_SAMPLES_INIT;
    int files = is (p, "files");

    samples.count = INT64_MAX;
    samples.fill = fill;
    samples.arg = p;
    if (!files && (mg_train_set_samples (p->train, "train", &samples, &p->err) < 0
                   || mg_train_set_samples (p->train, "validation", &samples, &p->err) < 0))
        return -1;
    if (mg_train_setup (p->train, &p->err) < 0)
        return -1;
    if (is (p, "names"))
        return print_names (p);
    if (take_steps (p) < 0)
        return -1;
    if ((is (p, "dump") || is (p, "fill")) && move_all (p) < 0)
        return -1;
    return is (p, "drop") ? 0 : mg_train_finish (p->train, &p->err);
}

int main (int argc, char **argv)
{
    struct program p = { .mode = getenv ("MODE") ? getenv ("MODE") : "steps" };
    FILE *log = fopen ("/dev/null", "w");
    int status = 1;

    p.train = mg_train_create (argc, argv, log, stderr, &p.err);
    if (p.train && run (&p) == 0)
        status = mg_train_status (p.train);
    else {
        if (mg_train_should_report (p.train, &p.err))
            fprintf (stderr, "library-steps: %s\n", p.err.text);
        fflush (NULL);
        mg_train_abort (p.train, 1);
    }
    mg_train_destroy (p.train);
    return status;
}
