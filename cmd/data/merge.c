/* merge.c - megatron data merge: several datasets become one */

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/data/copy.h"
#include "cmd/data/data.h"
#include "cmd/data/stop.h"
#include "libcore/data/indexed.h"

struct merge_request {
    char **prefixes; /* each an allocation of its own */
    size_t count;
    const char *directory; /* of --input, NULL: none */
    const char *output;
    bool modes; /* --multimodal */
};

/* The element type and the totals of all inputs. */
struct total {
    enum indexed_dtype dtype;
    bool modes;
    const char *first; /* prefix of the first dataset that has a sequence, NULL: none yet */
    int64_t bytes, tokens;
    size_t documents;
};

/* Add a dataset.  Owns 'prefix'; NULL: there was no memory for it. */
static int add_prefix (struct merge_request *r, char *prefix, struct mg_error *err)
{
    char **prefixes = reallocarray (r->prefixes, r->count + 1, sizeof (*prefixes));

    if (prefixes)
        r->prefixes = prefixes;
    if (!prefixes || !prefix) {
        free (prefix);
        return mg_error_set (err, ENOMEM, "out of memory");
    }
    r->prefixes[r->count++] = prefix;
    return 0;
}

static int set_prefix (void *target, const struct cmd_option *option, const char *what,
                       const char *value, struct mg_error *err)
{
    (void)option;
    if (data_check_prefix (what, value, err) < 0)
        return -1;
    return add_prefix (target, strdup (value), err);
}

static int set_input (void *target, const struct cmd_option *option, const char *what,
                      const char *value, struct mg_error *err)
{
    (void)option;
    if (data_check_name (what, value, err) < 0)
        return -1;
    ((struct merge_request *)target)->directory = value;
    return 0;
}

static const struct cmd_option merge_options[] = {
    { .name = "", .arg = "PREFIX...",
      .help = "datasets PREFIX.bin and PREFIX.idx, in this order", .set = set_prefix },
    { .name = "input", .arg = "DIR",
      .help = "all datasets in DIR, by name, in place of PREFIX...", .set = set_input },
    { .name = "output", .alias = "output-prefix", .arg = "PREFIX",
      .help = "the dataset to write", .set = data_set_prefix,
      .at = offsetof (struct merge_request, output), .required = true },
    { .name = "multimodal", .help = "refuse datasets whose sequences have no modes",
      .set = cmd_set_flag, .at = offsetof (struct merge_request, modes) },
    { .name = NULL },
};

static const char usage[] =
    "Usage: megatron data merge PREFIX... --output PREFIX\n"
    "       megatron data merge --input DIR --output PREFIX\n\n"
    "Write the documents of several datasets as one dataset.\n\n";

static int check_request (void *request, struct mg_error *err)
{
    const struct merge_request *r = request;

    if (r->count == 0 && !r->directory)
        return mg_error_set (err, EINVAL, "PREFIX is missing");
    if (r->count > 0 && r->directory)
        return mg_error_set (err, EINVAL, "--input DIR and PREFIX... exclude each other");
    return 0;
}

/* ---- the datasets of a directory ---- */

static int by_name (const void *a, const void *b)
{
    return strcmp (*(char *const *)a, *(char *const *)b);
}

static bool ends_with (const char *name, const char *ending)
{
    size_t n = strlen (name), m = strlen (ending);

    return n > m && strcmp (name + n - m, ending) == 0;
}

/* Both files of a dataset name it; a .bin alone does too, so that opening the dataset says that
 * its .idx is missing. */
static int add_file (struct merge_request *r, const char *name, struct mg_error *err)
{
    char *prefix;

    if (!ends_with (name, ".idx") && !ends_with (name, ".bin"))
        return 0;
    if (asprintf (&prefix, "%s/%.*s", r->directory, (int)strlen (name) - 4, name) < 0)
        prefix = NULL;
    return add_prefix (r, prefix, err);
}

/* Sort the prefixes, and keep one of each. */
static void sort_prefixes (struct merge_request *r)
{
    size_t n = 0;

    qsort (r->prefixes, r->count, sizeof (*r->prefixes), by_name);
    for (size_t i = 0; i < r->count; i++) {
        if (n > 0 && strcmp (r->prefixes[n - 1], r->prefixes[i]) == 0)
            free (r->prefixes[i]);
        else
            r->prefixes[n++] = r->prefixes[i];
    }
    r->count = n;
}

static int list_directory (struct merge_request *r, struct mg_error *err)
{
    const struct dirent *entry;
    DIR *dir = opendir (r->directory);
    int rc = 0;

    if (!dir)
        return mg_error_set (err, errno, "cannot open %s: %s", r->directory, strerror (errno));
    errno = 0;
    while (rc == 0 && (entry = readdir (dir))) {
        rc = add_file (r, entry->d_name, err);
        errno = 0;
    }
    if (rc == 0 && errno != 0)
        rc = mg_error_set (err, errno, "cannot read %s: %s", r->directory, strerror (errno));
    closedir (dir);
    if (rc == 0 && r->count == 0)
        rc = mg_error_set (err, ENOENT, "%s: no dataset there, want files named *.bin and "
                           "*.idx", r->directory);
    if (rc == 0)
        sort_prefixes (r);
    return rc;
}

/* ---- the work ---- */

static int check_input (const struct merge_request *r, const struct indexed *ix,
                        const char *prefix,
                        struct total *total, struct mg_error *err)
{
    const bool modes = indexed_has_modes (ix);

    if (data_copy_check_output (r->output, prefix, err) < 0)
        return -1;
    if (prefix == r->prefixes[0])
        total->dtype = indexed_dtype (ix);
    if (indexed_dtype (ix) != total->dtype)
        return mg_error_set (err, EINVAL, "%s has %s tokens, but %s has %s: want one type "
                             "in all datasets", prefix, indexed_dtype_name (indexed_dtype (ix)),
                             r->prefixes[0], indexed_dtype_name (total->dtype));
    if (indexed_num_sequences (ix) > 0) {
        if (r->modes && !modes)
            return mg_error_set (err, EINVAL, "--multimodal: the sequences of %s have no modes",
                                 prefix);
        if (total->first && modes != total->modes)
            return mg_error_set (err, EINVAL, "the sequences of %s have %s, but those of %s "
                                 "have %s: want modes in all datasets or in none", prefix,
                                 modes ? "modes" : "no modes", total->first,
                                 modes ? "no modes" : "modes");
        total->first = prefix;
        total->modes = modes;
    }
    total->documents += indexed_num_documents (ix);
    total->tokens += indexed_num_tokens (ix);
    total->bytes += indexed_num_tokens (ix) * (int64_t)indexed_dtype_size (total->dtype);
    return 0;
}

/* Check all inputs before the first byte is written. */
static int check_inputs (const struct merge_request *r, struct total *total, struct mg_error *err)
{
    for (size_t i = 0; i < r->count; i++) {
        struct indexed *ix = indexed_open (r->prefixes[i], err);
        int rc = ix ? check_input (r, ix, r->prefixes[i], total, err) : -1;

        indexed_close (ix);
        if (rc < 0)
            return -1;
    }
    return 0;
}

static int copy_inputs (void *arg, struct data_copy *copy, struct indexed_builder *b,
                        struct mg_error *err)
{
    const struct merge_request *r = arg;

    for (size_t i = 0; i < r->count; i++) {
        struct indexed *ix = indexed_open (r->prefixes[i], err);
        struct indexed_range all;
        int rc = -1;

        if (ix) {
            all = indexed_documents (ix, 0, indexed_num_documents (ix));
            rc = data_copy_range (copy, b, ix, &all, err);
        }
        indexed_close (ix);
        if (rc < 0)
            return -1;
    }
    return 0;
}

static int merge (struct merge_request *r, struct mg_error *err)
{
    struct total total = { .first = NULL };
    struct data_copy copy = { .done = 0 };
    int rc;

    data_stop_catch ();
    if (check_inputs (r, &total, err) < 0)
        return -1;
    progress_begin (&copy.progress, total.bytes);
    rc = data_copy_write (&copy, r->output, total.dtype, copy_inputs, r, err);
    progress_end (&copy.progress);
    if (rc == 0)
        data_copy_print (r->output, total.documents, total.tokens, total.dtype);
    return rc;
}

static int run_merge (int argc, char **argv, struct merge_request *request)
{
    bool help = false;
    const struct cmd_option_table tables[] = {
        { merge_options, request },
        { data_help_options, &help },
    };
    const struct cmd_syntax syntax = { "data", usage, tables, 2, &help, check_request, request };
    struct mg_error err;
    int status;

    status = cmd_part_read (&syntax, argc, argv);
    if (status != CMD_GO)
        return status;
    if ((request->directory && list_directory (request, &err) < 0)
        || merge (request, &err) < 0) {
        data_failure (argv[0], &err);
        data_stop_follow ();
        return DATA_FAILED;
    }
    return 0;
}

int data_merge (int argc, char **argv)
{
    struct merge_request request = { .count = 0 };
    int status = run_merge (argc, argv, &request);

    for (size_t i = 0; i < request.count; i++)
        free (request.prefixes[i]);
    free (request.prefixes);
    return status;
}
