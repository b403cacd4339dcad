/* hf_dir.c - a model in a directory as Hugging Face's transformers has it */

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "libcore/checkpoint/box.h"
#include "libcore/checkpoint/hf_config.h"
#include "libcore/checkpoint/hf_dir.h"
#include "libcore/checkpoint/hf_index.h"
#include "libcore/checkpoint/leftover.h"
#include "libcore/checkpoint/store.h"
#include "libcore/file/durable.h"
#include "libcore/file/outfile.h"

enum { MAX_JSON = 64 << 20 };

static const char config_name[] = HF_CONFIG_NAME, single_name[] = "model.safetensors";
static const char index_name[] = "model.safetensors.index.json";

/* --- reading --- */

static bool is_there (const char *path, const char *name)
{
    char *full = durable_path (NULL, "%s/%s", path, name);
    bool there = full && access (full, F_OK) == 0;

    free (full);
    return there;
}

/* The name of the newest checkpoint in the directory; false if there is none. */
static bool find_checkpoint (const char *path, char name[STORE_NAME_MAX])
{
    struct store_entry *entries;
    bool found = false;
    size_t n;

    if (store_scan (path, &entries, &n, NULL) < 0)
        return false;
    for (size_t i = 0; !found && i < n; i++) {
        found = entries[i].kind == STORE_CHECKPOINT || entries[i].kind == STORE_OLD;
        if (found)
            memcpy (name, entries[i].name, STORE_NAME_MAX);
    }
    free (entries);
    return found;
}

int hf_dir_probe (const char *path, struct mg_error *err)
{
    const char *weights = is_there (path, single_name) ? single_name : index_name;
    char name[STORE_NAME_MAX];

    if (is_there (path, config_name)) {
        if (find_checkpoint (path, name))
            return mg_error_set (err, EINVAL, "%s: both %s and checkpoint %s are there, want one "
                                 "of them", path, config_name, name);
        return 1;
    }
    if (is_there (path, weights) && !find_checkpoint (path, name))
        return mg_error_set (err, ENOENT, "%s: %s is there, but not the %s that describes the "
                             "model", path, weights, config_name);
    return 0;
}

/* A file of the directory; *full, to be freed, is its name for texts. */
static int read_file (const char *path, const char *name, char **full, char **text, size_t *len,
                      struct mg_error *err)
{
    if (!(*full = durable_path (err, "%s/%s", path, name)))
        return -1;
    return durable_read (*full, MAX_JSON, text, len, err);
}

static int read_config (const char *path, struct notes *args, const struct names_scheme **scheme,
                        struct mg_error *err)
{
    char *full = NULL, *text = NULL;
    size_t len;
    int rc = read_file (path, config_name, &full, &text, &len, err);

    if (rc == 0 && (rc = hf_config_parse (text, len, args, scheme, err)) < 0)
        mg_error_prefix (err, "%s", full);
    free (text);
    free (full);
    return rc;
}

static int open_one (struct hf_dir *d, const char *path, const char *name, struct mg_error *err)
{
    char *full = durable_path (err, "%s/%s", path, name);
    struct safetensors *file = full ? safetensors_open (full, err) : NULL;

    free (full);
    if (!file)
        return -1;
    d->set.file[d->set.num++] = file;
    return 0;
}

static int open_files (struct hf_dir *d, const char *path, const struct hf_index *index,
                       const char *index_path, struct mg_error *err)
{
    size_t n = index ? index->num_files : 1;

    if (!(d->set.file = calloc (n, sizeof (*d->set.file))))
        return mg_error_set (err, ENOMEM, "out of memory for %zu files", n);
    for (size_t i = 0; i < n; i++) {
        if (open_one (d, path, index ? index->file[i] : single_name, err) < 0)
            return -1;
    }
    if (index && hf_index_check (index, d->set.file, err) < 0)
        return mg_error_prefix (err, "%s", index_path);
    return 0;
}

static int open_indexed (struct hf_dir *d, const char *path, struct mg_error *err)
{
    char *full = NULL, *text = NULL;
    struct hf_index index;
    size_t len;
    int rc = read_file (path, index_name, &full, &text, &len, err);

    if (rc == 0 && (rc = hf_index_parse (text, len, &index, err)) < 0)
        mg_error_prefix (err, "%s", full);
    else if (rc == 0) {
        rc = open_files (d, path, &index, full, err);
        hf_index_clear (&index);
    }
    free (text);
    free (full);
    return rc;
}

/* --- what config.json does not say --- */

/* True if the files have the tensor that 'scheme' gives for our parameter 'ours' of a layer. */
static bool has_param (const struct hf_dir *d, const struct names_scheme *scheme,
                       const char *ours, int number)
{
    struct weights w = hf_dir_weights (d);
    const struct names_row *row = names_row_of (scheme, ours);
    char name[PIECE_NAME_MAX];

    if (!row)
        return false;
    names_format (name, row->theirs, number, 0);
    return weights_has (&w, name);
}

/* True if a layer has its experts in one tensor.  A file of n tensors has at most n layers. */
static bool has_fused (const struct hf_dir *d, int layers)
{
    struct weights w = hf_dir_weights (d);
    size_t most = weights_count (&w);

    for (int i = 0; d->scheme->fused && i < layers && (size_t)i < most; i++) {
        if (has_param (d, d->scheme->fused, names_expert_fc1, i))
            return true;
    }
    return false;
}

static int number_of (const struct notes *args, const char *name)
{
    const char *text = notes_find (args, name);

    return text ? (int)strtol (text, NULL, 10) : 0;
}

/* The layers for multi-token prediction are behind the others. */
static int inspect_tensors (struct hf_dir *d, struct mg_error *err)
{
    int layers = number_of (&d->args, "num-layers");

    if (has_fused (d, layers))
        d->scheme = d->scheme->fused;
    if (number_of (&d->args, "mtp-num-layers") == 0
        || has_param (d, d->scheme, "mtp.layers.%d.eh_proj.weight", layers))
        return 0;
    return notes_set (&d->args, "mtp-num-layers", "0", err);
}

int hf_dir_open (struct hf_dir *d, const char *path, struct mg_error *err)
{
    int rc;

    *d = (struct hf_dir){ .scheme = NULL };
    rc = read_config (path, &d->args, &d->scheme, err);
    if (rc == 0 && is_there (path, single_name))
        rc = open_files (d, path, NULL, NULL, err);
    else if (rc == 0 && is_there (path, index_name))
        rc = open_indexed (d, path, err);
    else if (rc == 0)
        rc = mg_error_set (err, ENOENT, "%s: neither %s nor %s is there", path, single_name,
                           index_name);
    if (rc == 0)
        rc = inspect_tensors (d, err);
    if (rc < 0)
        hf_dir_close (d);
    return rc;
}

int hf_dir_read_args (const char *path, struct notes *args, struct mg_error *err)
{
    const struct names_scheme *scheme;
    struct hf_dir d;
    int rc = read_config (path, args, &scheme, err);

    if (rc < 0 || number_of (args, "mtp-num-layers") == 0)
        return rc;
    if (hf_dir_open (&d, path, err) < 0)
        return -1;
    rc = notes_add (args, &d.args, err);
    hf_dir_close (&d);
    return rc;
}

void hf_dir_close (struct hf_dir *d)
{
    int saved_errno = errno;

    for (size_t i = 0; i < d->set.num; i++)
        safetensors_close (d->set.file[i]);
    free (d->set.file);
    notes_clear (&d->args);
    *d = (struct hf_dir){ .scheme = NULL };
    errno = saved_errno;
}

struct weights hf_dir_weights (const struct hf_dir *d)
{
    struct weights w = { .set = &d->set, .scheme = d->scheme };

    w.untied = notes_find (&d->args, "untie-embeddings-and-output-weights") != NULL;
    weights_find_prefix (&w);
    return w;
}

/* --- writing --- */

/* A name that hf_dir_save() gives a file. */
static bool is_ours (const char *name)
{
    static const char ending[] = ".safetensors";
    const size_t len = strlen (name), end = sizeof (ending) - 1;

    return strcmp (name, config_name) == 0 || strcmp (name, index_name) == 0
           || (strncmp (name, "model", 5) == 0 && len > end
               && strcmp (name + len - end, ending) == 0);
}

int hf_dir_check_input (const char *path, const char *input, struct mg_error *err)
{
    struct dirent *found;
    DIR *d = opendir (path);
    int rc = 0, errnum;

    if (!d)
        return 0;
    while (rc == 0 && (found = readdir (d))) {
        char *full;

        if (!is_ours (found->d_name))
            continue;
        full = durable_path (err, "%s/%s", path, found->d_name);
        rc = full ? outfile_check_input (full, input, err) : -1;
        free (full);
    }
    errnum = errno;
    closedir (d);
    errno = errnum;
    return rc;
}

static int64_t bytes_of (const struct piece *p)
{
    return box_count (box_of_global (p)) * (int64_t)mg_dtype_size (p->dtype);
}

/* The number of pieces from piece[first] on that one file holds. */
static size_t fill_file (const struct piece *pieces, size_t n, size_t first, int64_t max_bytes)
{
    int64_t sum = bytes_of (&pieces[first]);
    size_t last = first + 1;

    while (last < n && bytes_of (&pieces[last]) <= max_bytes - sum)
        sum += bytes_of (&pieces[last++]);
    return last - first;
}

/* A directory that is being written. */
struct saving {
    const char *path;
    struct mg_comm *comm;
    int *held; /* of each file that is written (leftover.h) */
    size_t num;
};

static int save_one (struct saving *s, const char *name, const struct piece *pieces, size_t n,
                     struct mg_error *err)
{
    char *full = durable_path (err, "%s/%s", s->path, name);
    struct note note = { (char *)"format", (char *)"pt" }; // transformers wants it
    const struct notes notes = { &note, 1, 1 };
    int *held = &s->held[s->num++], rc = -1;

    if (full)
        rc = safetensors_save_held (full, &notes, pieces, n, held, s->comm, err);
    else
        *held = -1;
    free (full);
    return rc;
}

static int save_config (const char *path, const char *text, struct mg_error *err)
{
    char *full = durable_path (err, "%s/%s", path, config_name);
    int rc = full ? outfile_replace (full, text, strlen (text), err) : -1;

    free (full);
    return rc;
}

static int save_held (struct saving *s, const char *full, const char *text, struct mg_error *err)
{
    struct outfile f;

    if (outfile_create (&f, full, OUTFILE_WHOLE, err) < 0)
        return -1;
    if (durable_write (f.fd, full, text, strlen (text), err) < 0) {
        outfile_drop (&f);
        return -1;
    }
    s->held[s->num++] = leftover_hold_file (f.fd);
    return outfile_commit (&f, err);
}

static int save_index (struct saving *s, json_t *map, int64_t total, struct mg_error *err)
{
    json_t *root = json_pack ("{s:{s:I}, s:O}", "metadata", "total_size", (json_int_t)total,
                              "weight_map", map);
    char *full = durable_path (err, "%s/%s", s->path, index_name);
    char *text = root && full ? json_dumps (root, JSON_INDENT (2)) : NULL;
    int rc = text ? save_held (s, full, text, err)
                  : mg_error_set (err, ENOMEM, "out of memory for the index");

    free (text);
    free (full);
    json_decref (root);
    return rc;
}

static int save_files (struct saving *s, const struct piece *pieces, size_t n, int64_t max_bytes,
                       size_t files, json_t *map, struct mg_error *err)
{
    int64_t total = 0;
    size_t count;

    for (size_t first = 0, i = 1; first < n; first += count, i++) {
        char name[64];

        snprintf (name, sizeof (name), "model-%05zu-of-%05zu.safetensors", i, files);
        count = fill_file (pieces, n, first, max_bytes);
        for (size_t k = first; k < first + count; k++) {
            total += bytes_of (&pieces[k]);
            if (json_object_set_new (map, pieces[k].name, json_string (name)) < 0)
                return mg_error_set (err, ENOMEM, "out of memory for the index");
        }
        if (save_one (s, name, pieces + first, count, err) < 0)
            return -1;
    }
    return save_index (s, map, total, err);
}

static int save_weights (struct saving *s, const struct piece *pieces, size_t n, int64_t max_bytes,
                         size_t files, struct mg_error *err)
{
    json_t *map;
    int rc;

    if (!(s->held = calloc (files + 2, sizeof (*s->held))))
        return mg_error_set (err, ENOMEM, "out of memory for %zu files", files);
    if (files <= 1)
        return save_one (s, single_name, pieces, n, err);
    if (!(map = json_object ()))
        return mg_error_set (err, ENOMEM, "out of memory for the index");
    rc = save_files (s, pieces, n, max_bytes, files, map, err);
    json_decref (map);
    return rc;
}

/* Remove the files of an unfinished directory. */
static void let_go (struct saving *s, int rc)
{
    int saved_errno = errno;

    for (size_t i = 0; i < s->num; i++) {
        if (rc < 0)
            leftover_remove_file (s->held[i]);
        if (s->held[i] >= 0)
            close (s->held[i]);
    }
    free (s->held);
    errno = saved_errno;
}

int hf_dir_save (const char *path, const char *config, const struct piece *pieces, size_t n,
                 int64_t max_bytes, struct mg_comm *comm, struct mg_error *err)
{
    struct saving s = { .path = path, .comm = comm };
    char name[STORE_NAME_MAX];
    size_t files = 0;
    int rc;

    if (durable_make_dirs (path, err) < 0)
        return -1;
    if (find_checkpoint (path, name))
        return mg_error_set (err, EEXIST, "%s: checkpoints are there already", path);
    for (size_t first = 0; first < n; files++)
        first += fill_file (pieces, n, first, max_bytes);
    /* Readers prefer a single file to an index. */
    if (is_there (path, config_name) || (files > 1 && is_there (path, single_name)))
        return mg_error_set (err, EEXIST, "%s: %s is there already", path,
                             is_there (path, config_name) ? config_name : single_name);
    rc = save_weights (&s, pieces, n, max_bytes, files, err);
    if (rc == 0)
        rc = save_config (path, config, err);
    let_go (&s, rc);
    return rc;
}
