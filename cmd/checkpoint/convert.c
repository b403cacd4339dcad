/* convert.c - megatron checkpoint convert: checkpoints, files of weights, directories of
 * Hugging Face's
 *
 * Reads a checkpoint, a safetensors file of our names or of Hugging Face's GPT-2, or a directory
 * with a config.json, and writes one of the four.  The model is known from the notes of the source
 * (args/model_notes.h); a source without them can only be a GPT-2, whose sizes follow from its
 * tensors.  The output is checked as far as possible before anything is read.  A new checkpoint is
 * never written beside others, which it would hide.
 */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "cmd/checkpoint/checkpoint.h"
#include "libcore/base/parse.h"
#include "libcore/checkpoint/checkpoint.h"
#include "libcore/checkpoint/hf_config.h"
#include "libcore/checkpoint/hf_dir.h"
#include "libcore/checkpoint/manifest.h"
#include "libcore/checkpoint/safetensors.h"
#include "libcore/checkpoint/store.h"
#include "libcore/checkpoint/weights.h"
#include "libcore/comm/alone.h"
#include "libcore/file/dirlock.h"
#include "libcore/file/durable.h"
#include "libcore/file/outfile.h"
#include "libcore/args/model_notes.h"
#include "libcore/train/state.h"

static const char prefix[] = "model."; /* of parameters in a checkpoint */

enum format { FORMAT_MEGATRON, FORMAT_HF_GPT2, FORMAT_CHECKPOINT, FORMAT_HF };

struct convert_request {
    const char *input, *output;
    enum format format;
    int64_t iteration; /* -1: the latest */
    int heads;         /* 0: not given */
    int64_t shard;     /* bytes of tensors in a file of FORMAT_HF */
    int dtype;         /* of the output, WEIGHTS_AS_IS: as in the input */
    bool help;
};

/* The source of a conversion, and the properties of its model. */
struct source {
    struct weights w;
    struct notes notes; /* those of a model, or none */
    struct model_config config;
    bool known;         /* config is what the notes describe */
};

static int set_input (void *target, const struct cmd_option *option, const char *what,
                      const char *value, struct mg_error *err)
{
    struct convert_request *request = target;

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
    ((struct convert_request *)target)->output = value;
    return 0;
}

static int set_format (void *target, const struct cmd_option *option, const char *what,
                       const char *value, struct mg_error *err)
{
    static const char *const names[] = { "megatron", "hf-gpt2", "checkpoint", "hf" };

    (void)option;
    for (int i = 0; i < 4; i++) {
        if (strcmp (value, names[i]) == 0) {
            ((struct convert_request *)target)->format = (enum format)i;
            return 0;
        }
    }
    return mg_error_set (err, EINVAL, "%s: \"%.40s\" is not megatron, hf, hf-gpt2 or checkpoint",
                         what, value);
}

static int set_dtype (void *target, const struct cmd_option *option, const char *what,
                      const char *value, struct mg_error *err)
{
    static const struct {
        const char *name;
        enum mg_dtype dtype;
    } types[] = { { "fp32", MG_FLOAT32 }, { "bf16", MG_BFLOAT16 }, { "fp16", MG_FLOAT16 } };

    (void)option;
    for (size_t i = 0; i < sizeof (types) / sizeof (types[0]); i++) {
        if (strcmp (value, types[i].name) == 0) {
            ((struct convert_request *)target)->dtype = (int)types[i].dtype;
            return 0;
        }
    }
    return mg_error_set (err, EINVAL, "%s: \"%.40s\" is not fp32, bf16 or fp16", what, value);
}

static int set_shard (void *target, const struct cmd_option *option, const char *what,
                      const char *value, struct mg_error *err)
{
    (void)option;
    return parse_bytes (what, value, &((struct convert_request *)target)->shard, err);
}

static const struct cmd_option convert_options[] = {
    { .name = "", .arg = "INPUT",
      .help = "a checkpoint, its directory, a safetensors file, or a directory with "
      "config.json", .set = set_input, .required = true },
    { .name = "output", .arg = "NAME",
      .help = "file or directory to write, or directory of checkpoints",
      .set = set_output, .required = true },
    { .name = "format", .arg = "FORMAT",
      .help = "megatron (default), hf, hf-gpt2 or checkpoint", .set = set_format },
    { .name = "dtype", .arg = "TYPE",
      .help = "fp32, bf16 or fp16: round all elements (default: as they are)",
      .set = set_dtype },
    { .name = "max-shard-size", .arg = "SIZE",
      .help = "tensors in one file of --format hf (default 5GB)", .set = set_shard },
    { .name = "iteration", .arg = "N",
      .help = "the checkpoint of iteration N (default the latest)", .set = cmd_set_int64,
      .at = offsetof (struct convert_request, iteration), .min = 0, .max = INT64_MAX },
    { .name = "num-attention-heads", .arg = "N",
      .help = "heads of the model, where the input does not tell and a layout needs it",
      .set = cmd_set_int, .at = offsetof (struct convert_request, heads), .min = 1,
      .max = INT32_MAX },
    { .name = "help", .help = "print this help", .set = cmd_set_flag,
      .at = offsetof (struct convert_request, help) },
    { .name = NULL },
};

static const char usage[] =
    "Usage: megatron checkpoint convert INPUT --output NAME [OPTION...]\n\n"
    "Write the parameters of a checkpoint to a safetensors file, by our names or\n"
    "Hugging Face's, or to a directory as transformers has it; or make such a file or\n"
    "directory one for --load-weights, or a checkpoint.\n\n";

/* --- reading --- */

/* Set the number of heads from the manifest, which must agree with a number that was given. */
static int set_heads (struct convert_request *request, const struct manifest *m,
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

static int read_checkpoint (struct convert_request *request, struct pieces *ours,
                            struct notes *notes,
                            struct mg_comm *comm, struct mg_error *err)
{
    struct checkpoint_place place;
    struct manifest *m;
    int rc = -1;

    if (checkpoint_find (request->input, request->iteration, &place, err) < 0)
        return -1;
    if ((m = checkpoint_manifest (&place, err)) && set_heads (request, m, err) == 0
        && model_notes_of_manifest (m, notes, err) == 0) {
        rc = add_parameters (m, ours, err);
        if (rc < 0)
            mg_error_prefix (err, "%s", place.path);
        else
            rc = checkpoint_load (place.dir, place.iteration, NULL, ours->piece, ours->n, NULL,
                                  NULL, comm, err);
    }
    for (size_t i = 0; i < ours->n; i++) {
        char *name = ours->piece[i].name;

        memmove (name, name + sizeof (prefix) - 1, strlen (name) + 2 - sizeof (prefix));
    }
    manifest_destroy (m);
    checkpoint_release (&place);
    return rc;
}

static int need_heads (const struct convert_request *request, struct mg_error *err)
{
    if (request->heads > 0)
        return 0;
    return mg_error_set (err, EINVAL, "%s does not have the number of heads: "
                         "--num-attention-heads is needed", request->input);
}

/* --- the model --- */

/* What the notes describe. */
static int know_model (const struct convert_request *request, struct source *s,
                       struct mg_error *err)
{
    if (!model_notes_given (&s->notes)) {
        notes_clear (&s->notes);
        return 0;
    }
    if (model_notes_config (&s->notes, &s->config, err) < 0
        || weights_check_count (&s->w, &s->config, err) < 0)
        return mg_error_prefix (err, "%s", request->input);
    s->known = true;
    if (request->heads > 0 && request->heads != s->config.num_heads)
        return mg_error_set (err, EINVAL, "--num-attention-heads %d, but %s has %d", request->heads,
                             request->input, s->config.num_heads);
    return 0;
}

/* Find the sizes of a source without notes.  'heads' says that their number is needed. */
static int find_model (const struct convert_request *request, struct source *s, bool heads,
                       struct mg_error *err)
{
    if (s->known)
        return 0;
    if (heads && need_heads (request, err) < 0)
        return -1;
    if (weights_sizes (&s->w, heads ? request->heads : 0, &s->config, err) < 0)
        return mg_error_prefix (err, "%s", request->input);
    return 0;
}

/* --- converting --- */

/* The type of the output.  A checkpoint has float32 alone.  Files without notes always became
 * float32.
 */
static int output_dtype (const struct convert_request *request, const struct source *s)
{
    if (request->dtype != WEIGHTS_AS_IS)
        return request->dtype;
    return request->format == FORMAT_CHECKPOINT || (s->w.file && !s->known) ? (int)MG_FLOAT32
                                                                            : WEIGHTS_AS_IS;
}

/* Our parameters in the order of the model, as they are written. */
static int make_ours (const struct convert_request *request, struct source *s,
                      struct weights_conversion *out, struct mg_error *err)
{
    if (find_model (request, s, s->w.scheme != &names_own, err) < 0)
        return -1;
    if (weights_import (&s->w, &s->config, output_dtype (request, s), out, err) < 0)
        return mg_error_prefix (err, "%s", request->input);
    return 0;
}

/* Foreign tensors, out of our own parameters. */
static int make_foreign (const struct convert_request *request, struct source *s,
                         const struct names_scheme *scheme, struct weights_conversion *out,
                         struct mg_error *err)
{
    if (find_model (request, s, true, err) < 0)
        return -1;
    if (weights_export (&s->w, scheme, &s->config, output_dtype (request, s), out, err) < 0)
        return mg_error_prefix (err, "%s", request->input);
    return 0;
}

/* --- Hugging Face's config.json --- */

/* Arguments of a GPT-2 whose sizes alone are known: the rest is as every GPT-2 has it. */
static int describe_gpt2 (struct source *s, struct mg_error *err)
{
    struct model_config c = s->config;

    c.norm_epsilon = 1e-5;
    c.init_std = 0.02;
    c.hidden_dropout = c.attention_dropout = 0.1;
    c.activation = KERN_GELU_TANH;
    return model_notes_make (&c, &s->notes, err);
}

/* Check that the text describes the whole model. */
static int check_config (const char *text, const struct source *s, struct mg_error *err)
{
    const struct names_scheme *scheme;
    struct model_config of_source, of_text;
    struct notes notes = { .num = 0 };
    const char *name = NULL;
    int rc = hf_config_parse (text, strlen (text), &notes, &scheme, err);

    if (rc == 0)
        rc = model_notes_config (&notes, &of_text, err);
    if (rc == 0)
        rc = model_notes_config (&s->notes, &of_source, err);
    if (rc == 0 && (name = model_notes_difference (&of_source, &of_text)))
        rc = mg_error_set (err, ENOTSUP, "--%s of the model has no place in config.json of %s",
                           name, notes_find (&notes, "hf-model-type"));
    notes_clear (&notes);
    return rc;
}

/* The text of config.json, to be freed. */
static char *make_config (const struct convert_request *request, struct source *s,
                          const struct names_scheme **scheme, struct mg_error *err)
{
    const char *word = "embedding.word_embeddings.weight";
    int dtype = output_dtype (request, s);
    struct weights_tensor t;
    char *text;

    if (find_model (request, s, true, err) < 0 || (!s->known && describe_gpt2 (s, err) < 0))
        return NULL;
    if (dtype == WEIGHTS_AS_IS)
        dtype = weights_find (&s->w, word, &t) ? (int)t.dtype : (int)MG_FLOAT32;
    text = hf_config_format (&s->notes, (enum mg_dtype)dtype, scheme, err);
    if (text && check_config (text, s, err) == 0)
        return text;
    mg_error_prefix (err, "%s", request->input);
    free (text);
    return NULL;
}

/* --- writing --- */

/* The tensors of our own source, as the format has them. */
static int save_foreign (const struct convert_request *request, struct source *s,
                         struct mg_comm *comm,
                         struct mg_error *err)
{
    const struct names_scheme *scheme = &names_gpt2;
    struct weights_conversion c;
    char *config = NULL;
    int rc;

    if (request->format == FORMAT_HF && !(config = make_config (request, s, &scheme, err)))
        return -1;
    rc = make_foreign (request, s, scheme, &c, err);
    if (rc == 0) {
        if (config)
            rc = hf_dir_save (request->output, config, c.pieces.piece, c.pieces.n, request->shard,
                              comm, err);
        else
            rc = safetensors_save (request->output, c.pieces.piece, c.pieces.n, comm, err);
        weights_clear (&c);
    }
    free (config);
    return rc;
}

static int write_foreign (const struct convert_request *request, struct source *s,
                          struct mg_comm *comm,
                          struct mg_error *err)
{
    struct convert_request first = *request;
    struct weights_conversion ours;
    struct pieces memory;
    struct source own;
    int rc;

    if (s->w.scheme == &names_own)
        return save_foreign (request, s, comm, err);
    /* rounded at the end, under the names that the user sees */
    first.dtype = request->dtype == WEIGHTS_AS_IS ? WEIGHTS_AS_IS : WEIGHTS_WIDENED;
    if (make_ours (&first, s, &ours, err) < 0)
        return -1;
    rc = pieces_read (&memory, &ours.pieces, err); /* from one scheme to another, by way of ours */
    weights_clear (&ours);
    if (rc == 0) {
        own = *s;
        own.w = (struct weights){ .pieces = &memory, .scheme = &names_own };
        rc = save_foreign (request, &own, comm, err);
        s->notes = own.notes;
        pieces_clear (&memory);
    }
    return rc;
}

/* True if the directory has checkpoints.  What a killed run has left does not count:
 * temporary names, and our own iteration without the latest file, which is written last.
 */
static bool has_checkpoint (const char *dir)
{
    const bool latest = store_read_latest (dir, &(int64_t){ 0 }, NULL) == 0 || errno != ENOENT;
    struct store_entry *entries;
    bool found = false;
    size_t n;

    if (store_scan (dir, &entries, &n, NULL) < 0)
        return false;
    for (size_t i = 0; i < n; i++)
        found |= entries[i].kind != STORE_TMP && (latest || entries[i].iteration != 0);
    free (entries);
    return found;
}

/* Write a checkpoint.  A directory that has checkpoints is refused: with the latest file the new
 * checkpoint would hide them.  So is a directory that a run holds, which may not have saved yet.
 */
static int write_checkpoint (const struct convert_request *request, const struct source *s,
                             const struct pieces *ours, struct mg_comm *comm,
                             struct mg_error *err)
{
    int heads = s->known ? s->config.num_heads : request->heads, rc;
    struct dirlock *lock;

    if (durable_make_dirs (request->output, err) < 0
        || !(lock = dirlock_take (request->output, err)))
        return -1;
    if (has_checkpoint (request->output))
        rc = mg_error_set (err, EEXIST, "%s: checkpoints are there already",
                           request->output);
    else
        rc = state_save_fresh (request->output, ours->piece, ours->n, heads, &s->notes, comm, err);
    dirlock_release (lock);
    return rc;
}

/* Write the parameters of a checkpoint that is no GPT as they are, in float32. */
static int write_ours (const struct convert_request *request, struct source *s,
                       struct mg_comm *comm,
                       struct mg_error *err)
{
    struct weights_conversion conversion = { .view = NULL };
    const struct pieces *ours = &conversion.pieces;
    int rc;

    if (make_ours (request, s, &conversion, err) < 0) {
        if (!s->w.pieces || s->known || errno != EINVAL || request->dtype > (int)MG_FLOAT32)
            return -1;
        ours = s->w.pieces;
    }
    if (request->format == FORMAT_MEGATRON)
        rc = safetensors_save_notes (request->output, &s->notes, ours->piece, ours->n, comm, err);
    else
        rc = write_checkpoint (request, s, ours, comm, err);
    weights_clear (&conversion);
    return rc;
}

static int write_output (const struct convert_request *request, struct source *s,
                         struct mg_comm *comm,
                         struct mg_error *err)
{
    if (know_model (request, s, err) < 0)
        return -1;
    if (request->format == FORMAT_HF_GPT2 || request->format == FORMAT_HF)
        return write_foreign (request, s, comm, err);
    return write_ours (request, s, comm, err);
}

static int convert_checkpoint (struct convert_request *request, struct mg_comm *comm,
                               struct mg_error *err)
{
    struct pieces ours = { .n = 0 };
    struct source s = { .w = { .pieces = &ours, .scheme = &names_own } };
    int rc = read_checkpoint (request, &ours, &s.notes, comm, err);

    if (rc == 0)
        rc = write_output (request, &s, comm, err);
    notes_clear (&s.notes);
    pieces_clear (&ours);
    return rc;
}

static int convert_file (const struct convert_request *request, struct mg_comm *comm,
                         struct mg_error *err)
{
    struct safetensors *st = safetensors_open (request->input, err);
    struct source s = { .w = { .file = st, .scheme = &names_own } };
    int rc;

    if (!st)
        return -1;
    if (weights_follow (st, &names_llama)) {
        mg_error_set (err, EINVAL, "%s: its tensors have Hugging Face's names of a model with a "
                      "config.json, give the directory that has both", request->input);
        safetensors_close (st);
        return -1;
    }
    if (weights_follow (st, &names_gpt2))
        s.w.scheme = &names_gpt2;
    rc = notes_add (&s.notes, safetensors_notes (st), err);
    if (rc == 0)
        rc = write_output (request, &s, comm, err);
    notes_clear (&s.notes);
    safetensors_close (st);
    return rc;
}

static int convert_hf (const struct convert_request *request, struct mg_comm *comm,
                       struct mg_error *err)
{
    struct source s = { .known = false };
    struct hf_dir dir;
    int rc;

    if (hf_dir_open (&dir, request->input, err) < 0)
        return -1;
    s.w = hf_dir_weights (&dir);
    rc = notes_add (&s.notes, &dir.args, err);
    if (rc == 0)
        rc = write_output (request, &s, comm, err);
    notes_clear (&s.notes);
    hf_dir_close (&dir);
    return rc;
}

/* Check what can be known of the output before anything is read.  The files of a directory must not
 * replace an input, which links may have put there.
 */
static int check_output (const struct convert_request *request, struct mg_error *err)
{
    if (request->format == FORMAT_CHECKPOINT)
        return store_check_input (request->output, request->input, err);
    if (request->format == FORMAT_HF)
        return hf_dir_check_input (request->output, request->input, err);
    if (outfile_check_input (request->output, request->input, err) < 0)
        return -1;
    if (outfile_check (request->output, OUTFILE_WHOLE, err) < 0)
        return mg_error_prefix (err, "--output");
    return 0;
}

static int convert (struct convert_request *request, struct mg_error *err)
{
    struct comm_alone alone;
    struct stat st;
    int hf, rc;

    if (stat (request->input, &st) < 0)
        return mg_error_set (err, errno, "%s: %s", request->input, strerror (errno));
    if ((hf = hf_dir_probe (request->input, err)) < 0)
        return -1;
    if ((!S_ISDIR (st.st_mode) || hf) && request->iteration >= 0)
        return mg_error_set (err, EINVAL, "--iteration: %s is a %s", request->input,
                             hf ? "model of Hugging Face's" : "file");
    if (check_output (request, err) < 0)
        return -1;
    if (comm_alone_begin (&alone, "convert", err) < 0)
        return -1;
    rc = hf                    ? convert_hf (request, alone.comm, err)
         : S_ISDIR (st.st_mode) ? convert_checkpoint (request, alone.comm, err)
                                : convert_file (request, alone.comm, err);
    comm_alone_end (&alone);
    return rc;
}

static int check_request (void *request, struct mg_error *err)
{
    const struct convert_request *r = request;

    if (r->format == FORMAT_CHECKPOINT && r->dtype > (int)MG_FLOAT32)
        return mg_error_set (err, EINVAL, "--dtype: a checkpoint has float32 alone");
    return 0;
}

int checkpoint_convert (int argc, char **argv)
{
    struct convert_request request = { .iteration = -1, .shard = INT64_C (5000000000),
                               .dtype = WEIGHTS_AS_IS };
    const struct cmd_option_table tables[] = { { convert_options, &request } };
    const struct cmd_syntax syntax = { "checkpoint", usage, tables, 1, &request.help, check_request,
                                       &request };
    struct mg_error err;
    int status;

    status = cmd_part_read (&syntax, argc, argv);
    if (status != CMD_GO)
        return status;
    if (convert (&request, &err) < 0)
        return checkpoint_failure (argv[0], &err);
    return 0;
}
