/* verify.c - megatron checkpoint verify: read all of it, report what is wrong
 *
 * Reads every byte of one checkpoint, or of all, and prints each fault with its kind
 * (checkpoint/audit.h).  A fault does not end the search for others.
 */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <jansson.h>

#include "cmd/checkpoint/checkpoint.h"
#include "libcore/checkpoint/audit.h"
#include "libcore/checkpoint/store.h"

struct verify {
    const struct checkpoint_common *common;
    json_t *list; /* with --json: one object a checkpoint */
    json_t *faults; /* of the current one */
    const char *path;
    int64_t bad; /* checkpoints with a fault */
};

static const struct cmd_option verify_options[] = {
    { .name = "all", .help = "every checkpoint in DIR", .set = cmd_set_flag },
    { .name = NULL },
};

static const char usage[] =
    "Usage: megatron checkpoint verify DIR [OPTION...]\n\n"
    "Read every byte of a checkpoint and compare it with its checksums; tell missing,\n"
    "truncated, damaged and foreign files, one line each.\n\n";

/* Texts may hold names from files: JSON wants UTF-8. */
static json_t *make_text (const char *text)
{
    json_t *item = json_string (text);

    return item ? item : json_string ("?");
}

static void add_fault (void *arg, enum audit_kind kind, const char *file,
                       const char *text)
{
    struct verify *v = arg;

    if (v->common->json)
        json_array_append_new (v->faults,
                               json_pack ("{s:s, s:o, s:o}", "kind",
                                          audit_kind_name (kind), "file", make_text (file),
                                          "text", make_text (text)));
    else
        printf ("%s: %s/%s: %s\n", audit_kind_name (kind), v->path, file, text);
}

static int verify_one (struct verify *v, const char *path, int64_t iteration,
                       struct mg_error *err)
{
    struct audit audit;
    int rc;

    v->path = path;
    if (!(v->faults = json_array ()))
        return mg_error_set (err, ENOMEM, "out of memory");
    rc = audit_checkpoint (path, iteration, add_fault, v, &audit, err);
    if (rc == 0) {
        v->bad += audit.faults > 0;
        if (v->common->json)
            json_array_append_new (
                v->list, json_pack ("{s:o, s:I, s:I, s:I, s:I, s:O}", "path",
                                    make_text (path), "iteration", (json_int_t)iteration,
                                    "files", (json_int_t)audit.files, "tensors",
                                    (json_int_t)audit.tensors, "bytes",
                                    (json_int_t)audit.bytes, "faults", v->faults));
        else if (audit.faults == 0)
            printf ("good: %s: %" PRId64 " files, %" PRId64 " tensors, %" PRId64 " bytes\n",
                    path, audit.files, audit.tensors, audit.bytes);
    }
    json_decref (v->faults);
    return rc;
}

static int verify_all (struct verify *v, struct mg_error *err)
{
    const char *dir = v->common->dir;
    struct store_entry *entries;
    size_t n, there = 0;
    int rc = 0;

    if (store_scan (dir, &entries, &n, err) < 0)
        return -1;
    for (size_t i = 0; rc == 0 && i < n; i++) {
        struct checkpoint_place place;

        if (entries[i].kind == STORE_TMP
            || (i > 0 && entries[i].iteration == entries[i - 1].iteration))
            continue;
        there++;
        rc = checkpoint_find (dir, entries[i].iteration, &place, err);
        if (rc == 0) {
            rc = verify_one (v, place.path, place.iteration, err);
            checkpoint_release (&place);
        }
    }
    free (entries);
    if (rc == 0 && there == 0)
        return mg_error_set (err, ENOENT, "%s: no checkpoint there", dir);
    return rc;
}

static int verify (const struct checkpoint_common *common, bool all, struct mg_error *err)
{
    struct verify v = { .common = common };
    struct checkpoint_place place;
    int rc = -1;

    if (!(v.list = json_array ()))
        return mg_error_set (err, ENOMEM, "out of memory");
    if (all)
        rc = verify_all (&v, err);
    else if (checkpoint_find (common->dir, common->iteration, &place, err) == 0) {
        rc = verify_one (&v, place.path, place.iteration, err);
        checkpoint_release (&place);
    }
    if (rc == 0 && common->json) {
        json_dumpf (v.list, stdout, JSON_COMPACT);
        putchar ('\n');
    }
    json_decref (v.list);
    if (rc == 0 && v.bad > 0)
        rc = mg_error_set (err, EBADMSG, "%s: %" PRId64 " bad checkpoint%s", common->dir, v.bad,
                           v.bad == 1 ? "" : "s");
    return rc;
}

int checkpoint_verify (int argc, char **argv)
{
    struct checkpoint_common common = { .iteration = -1 };
    bool all = false;
    const struct cmd_option_table tables[] = {
        { checkpoint_common_options, &common },
        { verify_options, &all },
    };
    const struct cmd_syntax syntax = { "checkpoint", usage, tables, 2, &common.help, NULL, NULL };
    struct mg_error err;
    int status;

    status = cmd_part_read (&syntax, argc, argv);
    if (status != CMD_GO)
        return status;
    if (all && common.iteration >= 0) {
        mg_error_set (&err, EINVAL, "--all and --iteration exclude each other");
        return checkpoint_usage_error (argv[0], &err);
    }
    if (verify (&common, all, &err) < 0)
        return checkpoint_failure (argv[0], &err);
    return 0;
}
