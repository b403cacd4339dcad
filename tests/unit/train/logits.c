/* logits - those of whole models with the weights of the reference data, against what Megatron-LM's
 * code computes in float64 (12_modern_*, before training)
 */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "libcore/checkpoint/safetensors.h"
#include "libcore/model/model_private.h"
#include "libcore/train/config.h"
#include "tests/lib/npz.h"
#include "tests/tap/tap.h"
#include "tests/unit/nn/alone.h"

enum { BATCH = 4, MAX_WORDS = 100 };

static const char *path_of (const char *name, const char *ending)
{
    static char paths[4][4096];
    static int turn;
    char *path = paths[turn++ % 4];
    char file[128];

    snprintf (file, sizeof (file), "golden/12_modern_%s.%s", name, ending);
    return shared_file (path, sizeof (paths[0]), file) ? path : NULL;
}

static struct safetensors *open_tensors (const char *name, const char *ending)
{
    struct mg_error err;
    const char *path = path_of (name, ending);
    struct safetensors *st = path ? safetensors_open (path, &err) : NULL;

    if (!st)
        bail_out ("12_modern_%s.%s cannot be read", name, ending);
    return st;
}

/* The model that the reference's arguments describe. */
static void configure (const char *name, struct model_config *m)
{
    json_t *golden = json_load_file (path_of (name, "json"), 0, NULL), *word;
    char *argv[MAX_WORDS] = { (char *)"train" };
    struct train_args args;
    struct run_config c;
    struct mg_error err = { "" };
    int argc = 1;
    size_t i;

    json_array_foreach (json_object_get (golden, "args"), i, word) {
        if (argc < MAX_WORDS)
            argv[argc++] = (char *)json_string_value (word);
        if (argc > 2 && strcmp (argv[argc - 2], "--optimizer") == 0)
            argc -= 2;
    }
    if (train_args_read (argc, argv, &args, &err) < 0)
        bail_out ("%s: %s", name, err.text);
    run_config_init (&c, &args);
    geometry_init (&c.geometry);
    if (run_config_model (&c, &err) < 0)
        bail_out ("%s: %s", name, err.text);
    *m = c.model.config;
    train_args_clear (&args);
    json_decref (golden);
}

/* The weights, by name. */
static void load (const char *name, struct param *params, size_t n)
{
    struct safetensors *st = open_tensors (name, "init.safetensors");
    size_t found = 0;

    for (size_t i = 0; i < n; i++) {
        const struct safetensors_entry *e = safetensors_find (st, params[i].name);

        if (!e || e->size != (size_t)params[i].numel * sizeof (float))
            continue;
        memcpy (params[i].data, e->data, e->size);
        found++;
    }
    is_int ((int64_t)found, (int64_t)safetensors_count (st), "%s: %zu weights", name, n);
    ok (found == n, "%s: and no others", name);
    safetensors_close (st);
}

/* The first batch, position by position. */
static void fill (const char *name, struct nn_inputs in, int64_t seq)
{
    const char *batches = path_of (name, "batches.safetensors") ? "batches.safetensors"
                                                                : "io.safetensors";
    struct safetensors *st = open_tensors (name, batches);
    const struct safetensors_entry *tokens = safetensors_find (st, "tokens");

    for (int64_t t = 0; t < BATCH * seq; t++) {
        int64_t at = t % BATCH * seq + t / BATCH;

        memcpy ((int32_t *)nn_inputs_data (&in, "tokens") + t,
                (const char *)tokens->data + at * 4, 4);
        ((int32_t *)nn_inputs_data (&in, "labels"))[t] = 0;
        ((float *)nn_inputs_data (&in, "loss_mask"))[t] = 1;
    }
    for (int b = 0; b < BATCH; b++)
        ((int64_t *)nn_inputs_data (&in, "samples"))[b] = b;
    safetensors_close (st);
}

/* Logits of the reference, [batch][position][vocabulary]. */
static float *reference (const char *name, size_t *count)
{
    struct mg_error err = { "" };
    const char *path = path_of (name, "npz");
    struct npz *npz = path ? npz_open (path, &err) : NULL;
    float *logits = npz ? npz_floats (npz, "logits0_f64_as_f32", count, &err) : NULL;

    npz_close (npz);
    if (!path) {
        struct safetensors *st = open_tensors (name, "io.safetensors");
        const struct safetensors_entry *e = safetensors_find (st, "logits_f64_as_f32");

        *count = e->size / sizeof (float);
        if ((logits = malloc (e->size)))
            memcpy (logits, e->data, e->size);
        safetensors_close (st);
    }
    if (!logits)
        bail_out ("%s: %s", name, err.text);
    return logits;
}

static void compare (const char *name, const struct alone *alone, int64_t seq, int64_t vocab)
{
    const float *got = alone_logits (alone);
    double largest = 0;
    size_t count;
    float *want = reference (name, &count);

    is_int ((int64_t)count, BATCH * seq * vocab, "%s: %zu logits", name, count);
    for (int64_t b = 0; b < BATCH; b++)
        for (int64_t s = 0; s < seq; s++)
            for (int64_t v = 0; v < vocab; v++)
                largest = fmax (largest, fabs ((double)got[(s * BATCH + b) * vocab + v]
                                               - (double)want[(b * seq + s) * vocab + v]));
    ok (largest < 1e-5, "%s: largest difference %.2g", name, largest);
    free (want);
}

static void test (const char *name)
{
    const struct model_mode mode = { .loss_weight = 1 };
    struct model_spec spec = { .micro_batch_size = BATCH };
    struct mg_error err = { "" };
    struct alone alone;
    struct model *m;

    configure (name, &spec.config);
    alone_create (&alone, &spec);
    m = alone.model;
    load (name, alone.params, alone.n);
    fill (name, model_inputs (m, NULL, 0, 0), spec.config.seq_length);
    if (model_begin (m, &mode, &err) < 0 || model_forward (m, &mode, 0, 0, &err) < 0
        || mg_stream_synchronize (model_stream (m), &err) < 0)
        bail_out ("%s: %s", name, err.text);
    compare (name, &alone, spec.config.seq_length, spec.config.padded_vocab_size);
    alone_destroy (&alone);
}

int main (void)
{
    static const char *const names[] = { "llama", "qwen", "yarn", "mla", "llama3_rope" };

    for (size_t i = 0; i < sizeof (names) / sizeof (names[0]); i++) {
        if (path_of (names[i], "json"))
            test (names[i]);
        else
            skip (1, "no reference data: 12_modern_%s.json", names[i]);
    }
    return done_testing ();
}
