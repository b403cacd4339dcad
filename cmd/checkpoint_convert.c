/* checkpoint_convert.c - megatron checkpoint convert: checkpoints and files of weights
 *
 * Reads a checkpoint, or a safetensors file of our names or of Hugging Face's GPT-2, into memory,
 * and writes one of the three.  The output is checked as far as possible before anything is
 * read.  A new checkpoint is never written beside others, which it would hide.
 */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "cmd/checkpoint.h"
#include "libcore/base/parse.h"
#include "libcore/checkpoint/checkpoint.h"
#include "libcore/checkpoint/dirlock.h"
#include "libcore/checkpoint/durable.h"
#include "libcore/checkpoint/manifest.h"
#include "libcore/checkpoint/outfile.h"
#include "libcore/checkpoint/safetensors.h"
#include "libcore/checkpoint/store.h"
#include "libcore/checkpoint/weights.h"
#include "libcore/comm/alone.h"
#include "libcore/train/state.h"

static const char prefix[] = "model."; /* of parameters in a checkpoint */

enum format { FORMAT_MEGATRON, FORMAT_HF_GPT2, FORMAT_CHECKPOINT };

struct request {
    const char *input, *output;
    enum format format;
    int64_t iteration; /* -1: the latest */
    int heads;         /* 0: not given */
    bool help;
};

static int set_input (void *target, const struct cmd_option *option, const char *what,
                      const char *value, struct mg_error *err)
{
    struct request *request = target;

    (void)option;
    if (request->input)
        return mg_error_set (err, EINVAL, "%s: \"%.60s\" is one too many", what, value);
    request->input = value;
    return 0;
}

static int set_output (void *target, const struct cmd_option *option, const char *what,
                       const char *value, struct mg_error *err)
{
    (void)option;
    if (*value == '\0')
        return mg_error_set (err, EINVAL, "%s: a name is missing", what);
    ((struct request *)target)->output = value;
    return 0;
}

static int set_format (void *target, const struct cmd_option *option, const char *what,
                       const char *value, struct mg_error *err)
{
    static const char *const names[] = { "megatron", "hf-gpt2", "checkpoint" };

    (void)option;
    for (int i = 0; i < 3; i++) {
        if (strcmp (value, names[i]) == 0) {
            ((struct request *)target)->format = (enum format)i;
            return 0;
        }
    }
    return mg_error_set (err, EINVAL, "%s: \"%.40s\" is not megatron, hf-gpt2 or checkpoint",
                         what, value);
}

static int set_iteration (void *target, const struct cmd_option *option, const char *what,
                          const char *value, struct mg_error *err)
{
    (void)option;
    return parse_int64 (what, value, 0, INT64_MAX, &((struct request *)target)->iteration,
                        err);
}

static int set_heads (void *target, const struct cmd_option *option, const char *what,
                      const char *value, struct mg_error *err)
{
    (void)option;
    return parse_int (what, value, 1, INT32_MAX, &((struct request *)target)->heads, err);
}

static int set_help (void *target, const struct cmd_option *option, const char *what,
                     const char *value, struct mg_error *err)
{
    (void)option, (void)what, (void)value, (void)err;
    ((struct request *)target)->help = true;
    return 0;
}

static const struct cmd_option convert_options[] = {
    { "", NULL, "INPUT", "a checkpoint, its directory, or a safetensors file", NULL, set_input },
    { "output", NULL, "NAME", "file to write, or directory of checkpoints", NULL, set_output },
    { "format", NULL, "FORMAT", "megatron (default), hf-gpt2 or checkpoint", NULL,
      set_format },
    { "iteration", NULL, "N", "the checkpoint of iteration N (default the latest)", NULL,
      set_iteration },
    { "num-attention-heads", NULL, "N",
      "heads of the model, where the input does not tell and a layout needs it", NULL,
      set_heads },
    { "help", NULL, NULL, "print this help", NULL, set_help },
    { NULL, NULL, NULL, NULL, NULL, NULL },
};

static void print_help (const struct cmd_option_table *tables, int ntables)
{
    printf ("Usage: megatron checkpoint convert INPUT --output NAME [OPTION...]\n\n"
            "Write the parameters of a checkpoint to a safetensors file, by our names or\n"
            "Hugging Face's, or make such a file one for --load-weights, or a checkpoint.\n\n");
    cmd_options_help (tables, ntables);
}

/* --- reading --- */

/* Heads that the manifest tells must agree with those given. */
static int take_heads (struct request *request, const struct manifest *m,
                       struct mg_error *err)
{
    json_t *value = json_object_get (m->values, "num_attention_heads");
    const json_int_t heads = json_integer_value (value);

    if (!json_is_integer (value) || heads < 1 || heads > INT32_MAX)
        return 0;
    if (request->heads > 0 && request->heads != heads)
        return mg_error_set (err, EINVAL, "--num-attention-heads %d, but the checkpoint has %"
                             PRId64, request->heads, (int64_t)heads);
    request->heads = (int)heads;
    return 0;
}

/* Memory for every parameter, by its name in the checkpoint. */
static int add_parameters (const struct manifest *m, struct pieces *ours,
                           struct mg_error *err)
{
    if (pieces_allocate (ours, m->roster->num_tensors, err) < 0)
        return -1;
    for (size_t i = 0; i < m->roster->num_tensors; i++) {
        const struct roster_tensor *t = &m->roster->tensors[i];

        if (strncmp (t->name, prefix, sizeof (prefix) - 1) == 0
            && !pieces_add (ours, t->name, t->dtype, t->ndims, t->global, err))
            return -1;
    }
    return ours->n > 0 ? 0 : mg_error_set (err, EINVAL, "no parameters are in it");
}

static int read_checkpoint (struct request *request, struct pieces *ours,
                            struct mg_comm *comm, struct mg_error *err)
{
    struct checkpoint_place place;
    struct manifest *m;
    int rc = -1;

    if (checkpoint_find (request->input, request->iteration, &place, err) < 0)
        return -1;
    if ((m = checkpoint_manifest (&place, err)) && take_heads (request, m, err) == 0) {
        rc = add_parameters (m, ours, err);
        if (rc < 0)
            mg_error_prefix (err, "%s", place.path);
        else
            rc = checkpoint_load (place.dir, place.iteration, NULL, ours->piece, ours->n, NULL,
                                  comm, err);
    }
    for (size_t i = 0; i < ours->n; i++) {
        char *name = ours->piece[i].name;

        memmove (name, name + sizeof (prefix) - 1, strlen (name) + 2 - sizeof (prefix));
    }
    manifest_destroy (m);
    checkpoint_release (&place);
    return rc;
}

static int need_heads (const struct request *request, struct mg_error *err)
{
    if (request->heads > 0)
        return 0;
    return mg_error_set (err, EINVAL, "%s does not tell the number of heads: "
                         "--num-attention-heads is needed", request->input);
}

/* --- converting --- */

/* Our parameters in the order of the model, as they are written.  Those of a file become float32.
 */
static int make_ours (const struct request *request, struct weights *w,
                      struct weights_conversion *out, struct mg_error *err)
{
    bool foreign = w->scheme != &names_own;
    struct model_config c;

    if (foreign && need_heads (request, err) < 0)
        return -1;
    if (weights_sizes (w, foreign ? request->heads : 0, &c, err) < 0
        || weights_import (w, &c, w->file, out, err) < 0)
        return mg_error_prefix (err, "%s", request->input);
    return 0;
}

/* Foreign tensors, out of our own parameters. */
static int make_foreign (const struct request *request, struct weights *w,
                         const struct names_scheme *scheme, struct weights_conversion *out,
                         struct mg_error *err)
{
    struct model_config c;

    if (need_heads (request, err) < 0)
        return -1;
    if (weights_sizes (w, request->heads, &c, err) < 0
        || weights_export (w, scheme, &c, w->file, out, err) < 0)
        return mg_error_prefix (err, "%s", request->input);
    return 0;
}

/* --- writing --- */

static int save_foreign (const struct request *request, struct weights *w,
                         const struct names_scheme *scheme, struct mg_comm *comm,
                         struct mg_error *err)
{
    struct weights_conversion conversion;
    int rc = make_foreign (request, w, scheme, &conversion, err);

    if (rc == 0) {
        rc = safetensors_save (request->output, conversion.pieces.piece, conversion.pieces.n,
                               comm, err);
        weights_clear (&conversion);
    }
    return rc;
}

static int write_foreign (const struct request *request, struct weights *w,
                          const struct names_scheme *scheme, struct mg_comm *comm,
                          struct mg_error *err)
{
    struct weights_conversion ours;
    struct pieces memory;
    struct weights own = { .pieces = &memory, .scheme = &names_own };
    int rc;

    if (w->scheme == &names_own)
        return save_foreign (request, w, scheme, comm, err);
    if (make_ours (request, w, &ours, err) < 0)
        return -1;
    rc = pieces_read (&memory, &ours.pieces, err); /* from one scheme to another, by way of ours */
    weights_clear (&ours);
    if (rc == 0) {
        rc = save_foreign (request, &own, scheme, comm, err);
        pieces_clear (&memory);
    }
    return rc;
}

/* Never beside others: with the latest file the new one would hide them.  A run that has not
 * saved yet holds the directory.
 */
static int write_checkpoint (const struct request *request, const struct pieces *ours,
                             struct mg_comm *comm, struct mg_error *err)
{
    struct store_entry *entries;
    struct dirlock *lock;
    size_t n = 0;
    int rc;

    if (durable_make_dirs (request->output, err) < 0
        || !(lock = dirlock_take (request->output, err)))
        return -1;
    if (store_scan (request->output, &entries, &n, NULL) == 0)
        free (entries);
    if (n > 0)
        rc = mg_error_set (err, EEXIST, "%s: checkpoints are there already",
                           request->output);
    else
        rc = state_save_fresh (request->output, ours->piece, ours->n, request->heads, comm,
                               err);
    dirlock_release (lock);
    return rc;
}

/* What a checkpoint has that is no GPT is written as it is. */
static int write_ours (const struct request *request, struct weights *w, struct mg_comm *comm,
                       struct mg_error *err)
{
    struct weights_conversion conversion = { .view = NULL };
    const struct pieces *ours = &conversion.pieces;
    int rc;

    if (make_ours (request, w, &conversion, err) < 0) {
        if (w->file || errno != EINVAL)
            return -1;
        ours = w->pieces;
    }
    if (request->format == FORMAT_MEGATRON)
        rc = safetensors_save (request->output, ours->piece, ours->n, comm, err);
    else
        rc = write_checkpoint (request, ours, comm, err);
    weights_clear (&conversion);
    return rc;
}

static int write_output (const struct request *request, struct weights *w, struct mg_comm *comm,
                         struct mg_error *err)
{
    if (request->format == FORMAT_HF_GPT2)
        return write_foreign (request, w, &names_gpt2, comm, err);
    return write_ours (request, w, comm, err);
}

static int convert_checkpoint (struct request *request, struct mg_comm *comm,
                               struct mg_error *err)
{
    struct pieces ours = { .n = 0 };
    struct weights w = { .pieces = &ours, .scheme = &names_own };
    int rc = read_checkpoint (request, &ours, comm, err);

    if (rc == 0)
        rc = write_output (request, &w, comm, err);
    pieces_clear (&ours);
    return rc;
}

static int convert_file (const struct request *request, struct mg_comm *comm,
                         struct mg_error *err)
{
    struct safetensors *st = safetensors_open (request->input, err);
    struct weights w = { .file = st, .scheme = &names_own };
    int rc;

    if (!st)
        return -1;
    if (weights_follow (st, &names_gpt2))
        w.scheme = &names_gpt2;
    rc = write_output (request, &w, comm, err);
    safetensors_close (st);
    return rc;
}

/* What can be known of the output before anything is read. */
static int check_output (const struct request *request, struct mg_error *err)
{
    if (request->format == FORMAT_CHECKPOINT)
        return 0;
    if (outfile_check (request->output, OUTFILE_WHOLE, err) < 0)
        return mg_error_prefix (err, "--output");
    return 0;
}

static int convert (struct request *request, struct mg_error *err)
{
    struct comm_alone alone;
    struct stat st;
    int rc;

    if (stat (request->input, &st) < 0)
        return mg_error_set (err, errno, "%s: %s", request->input, strerror (errno));
    if (!S_ISDIR (st.st_mode) && request->iteration >= 0)
        return mg_error_set (err, EINVAL, "--iteration: %s is a file", request->input);
    if (check_output (request, err) < 0)
        return -1;
    if (comm_alone_begin (&alone, "convert", err) < 0)
        return -1;
    rc = S_ISDIR (st.st_mode) ? convert_checkpoint (request, alone.comm, err)
                              : convert_file (request, alone.comm, err);
    comm_alone_end (&alone);
    return rc;
}

int checkpoint_convert (int argc, char **argv)
{
    struct request request = { .iteration = -1 };
    const struct cmd_option_table tables[] = { { convert_options, &request } };
    struct mg_error err;

    if (cmd_options_read (tables, 1, argc, argv, &err) < 0)
        return checkpoint_usage_error (argv[0], &err);
    if (request.help) {
        print_help (tables, 1);
        return 0;
    }
    if (!request.input || !request.output) {
        mg_error_set (&err, EINVAL, "%s is missing", request.input ? "--output" : "INPUT");
        return checkpoint_usage_error (argv[0], &err);
    }
    if (convert (&request, &err) < 0)
        return checkpoint_failure (argv[0], &err);
    return 0;
}
