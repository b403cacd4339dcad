/* nccl_config.c - a file of settings of NCCL: libyaml's document, checked node by node */

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include <xxhash.h>
#include <yaml.h>

#include "libcore/base/parse.h"
#include "libcore/comm/nccl_config.h"
#include "libcore/file/durable.h"

enum {
    FILE_MAX = 1 << 16, /* bytes */
    CGA_MAX = 8,        /* of NCCL: NCCL_MAX_CGA_CLUSTER_SIZE */
    CTAS_MAX = 64,      /* likewise: MAXCHANNELS */
};

/* Groups of Megatron-LM, and the communicators here that are theirs. */
static const struct group_row {
    const char *name;
    const char *comms[6];
} groups[] = {
    { "tp", { "tp" } },
    { "cp", { "cp" } },
    { "hcp", { "cp-inner", "cp-outer" } },
    { "pp", { "pp", "pp-backward", "pp-fwd-in", "pp-fwd-out", "pp-bwd-in", "pp-bwd-out" } },
    { "dp", { "dp" } },
    { "dp_cp", { "dp-cp" } },
    { "intra_dp_cp", { "dp-shard" } },
    { "mp", { "tp-pp" } },
    { "embd", { "embd" } },
    { "pos_embd", { "pos-embd" } },
    { "tp_cp", { "tp-cp" } },
    { "tp_dp", { "tp-dp" } },
    { "tp_dp_cp", { "tp-dp-cp" } },
    { "ep", { "ep" } },
    { "ep_tp", { "etp" } },
    { "tp_ep_mp", { "tp-ep" } },
    { "tp_ep_pp", { "tp-ep-pp" } },
    { "ep_dp", { "edp" } },
    { "intra_ep_dp", { "edp-shard" } },
    { "inter_ep_dp", { "dp-instances", "edp-instances" } },
    { "intra_dist_opt_instance", { NULL } },
};

enum { NUM_GROUPS = sizeof (groups) / sizeof (groups[0]) };

struct nccl_config {
    bool given[NUM_GROUPS];
    struct nccl_settings settings[NUM_GROUPS];
};

/* A document on its way into a config. */
struct reader {
    const char *path;
    yaml_document_t *document;
    struct nccl_config *config;
};

static int refuse (const struct reader *r, const yaml_node_t *node, struct mg_error *err,
                   const char *fmt, ...) __attribute__ ((format (printf, 4, 5)));

/* "PATH:LINE: what is wrong" */
static int refuse (const struct reader *r, const yaml_node_t *node, struct mg_error *err,
                   const char *fmt, ...)
{
    char text[400];
    va_list ap;

    va_start (ap, fmt);
    vsnprintf (text, sizeof (text), fmt, ap);
    va_end (ap);
    return mg_error_set (err, EINVAL, "%s:%zu: %s", r->path, node->start_mark.line + 1, text);
}

/* The text of a scalar, which has no zero byte; NULL: it is none. */
static const char *text_of (const yaml_node_t *node)
{
    const char *text;

    if (!node || node->type != YAML_SCALAR_NODE)
        return NULL;
    text = (const char *)node->data.scalar.value;
    return strlen (text) == node->data.scalar.length ? text : NULL;
}

/* --- settings --- */

static int read_net_name (const char *what, const char *text, struct nccl_settings *s,
                          struct mg_error *err)
{
    static const char *const names[] = { "IB", "Socket" }; // as NCCL spells them

    for (size_t i = 0; i < sizeof (names) / sizeof (names[0]); i++) {
        if (strcasecmp (text, names[i]) != 0)
            continue;
        snprintf (s->net_name, sizeof (s->net_name), "%s", names[i]);
        return 0;
    }
    return mg_error_set (err, EINVAL, "%s: \"%.40s\" is not IB or socket", what, text);
}

static int read_cga (const char *what, const char *text, struct nccl_settings *s,
                     struct mg_error *err)
{
    return parse_int (what, text, 0, CGA_MAX, &s->cga_cluster_size, err);
}

static int read_min (const char *what, const char *text, struct nccl_settings *s,
                     struct mg_error *err)
{
    return parse_int (what, text, 1, CTAS_MAX, &s->min_ctas, err);
}

static int read_max (const char *what, const char *text, struct nccl_settings *s,
                     struct mg_error *err)
{
    return parse_int (what, text, 1, CTAS_MAX, &s->max_ctas, err);
}

static int read_priority (const char *what, const char *text, struct nccl_settings *s,
                          struct mg_error *err)
{
    bool high;

    if (parse_bool (what, text, &high, err) < 0)
        return -1;
    s->high_priority = high;
    return 0;
}

static const struct key_row {
    const char *name;
    int (*read) (const char *what, const char *text, struct nccl_settings *s,
                 struct mg_error *err);
} keys[] = {
    { "cga_cluster_size", read_cga },
    { "min_ctas", read_min },
    { "max_ctas", read_max },
    { "net_name", read_net_name },
    { "is_high_priority_stream", read_priority },
};

enum { NUM_KEYS = sizeof (keys) / sizeof (keys[0]) };

/* --- the document --- */

/* "a, b or c" */
static void list_name (char *list, size_t max, const char *name, int i, int n)
{
    size_t len = strlen (list);

    snprintf (list + len, max - len, "%s%s", i == 0 ? "" : i == n - 1 ? " or " : ", ", name);
}

static int refuse_key (const struct reader *r, const yaml_node_t *node, const char *group,
                       struct mg_error *err)
{
    char list[200] = "";

    for (int i = 0; i < NUM_KEYS; i++)
        list_name (list, sizeof (list), keys[i].name, i, NUM_KEYS);
    return refuse (r, node, err, "%s: there is no setting \"%.40s\", want %s", group,
                   text_of (node) ? text_of (node) : "", list);
}

static int refuse_group (const struct reader *r, const yaml_node_t *node, struct mg_error *err)
{
    char list[300] = "";

    for (int i = 0; i < NUM_GROUPS; i++)
        list_name (list, sizeof (list), groups[i].name, i, NUM_GROUPS);
    return refuse (r, node, err, "there is no group \"%.40s\", want %s",
                   text_of (node) ? text_of (node) : "", list);
}

static int find_key (const char *text)
{
    for (int i = 0; text && i < NUM_KEYS; i++) {
        if (strcmp (text, keys[i].name) == 0)
            return i;
    }
    return -1;
}

static int find_group (const char *text)
{
    for (int i = 0; text && i < NUM_GROUPS; i++) {
        if (strcmp (text, groups[i].name) == 0)
            return i;
    }
    return -1;
}

static int read_settings (const struct reader *r, const yaml_node_t *node, int group,
                          struct mg_error *err)
{
    struct nccl_settings *s = &r->config->settings[group];
    const char *name = groups[group].name;
    bool seen[NUM_KEYS] = { false };

    if (node->type != YAML_MAPPING_NODE)
        return refuse (r, node, err, "%s: want settings, one a line, each \"NAME: VALUE\"", name);
    for (const yaml_node_pair_t *pair = node->data.mapping.pairs.start;
         pair < node->data.mapping.pairs.top; pair++) {
        const yaml_node_t *key = yaml_document_get_node (r->document, pair->key);
        const yaml_node_t *value = yaml_document_get_node (r->document, pair->value);
        int i = find_key (text_of (key));
        struct mg_error why;

        if (i < 0)
            return refuse_key (r, key, name, err);
        if (seen[i])
            return refuse (r, key, err, "%s: %s is there twice", name, keys[i].name);
        seen[i] = true;
        if (!text_of (value))
            return refuse (r, value, err, "%s: %s: want one value", name, keys[i].name);
        if (keys[i].read (keys[i].name, text_of (value), s, &why) < 0)
            return refuse (r, value, err, "%s: %s", name, why.text);
    }
    if (s->min_ctas != NCCL_UNSET && s->max_ctas != NCCL_UNSET && s->min_ctas > s->max_ctas)
        return refuse (r, node, err, "%s: min_ctas is %d, want at most max_ctas, which is %d",
                       name, s->min_ctas, s->max_ctas);
    return 0;
}

static int read_document (const struct reader *r, struct mg_error *err)
{
    const yaml_node_t *root = yaml_document_get_root_node (r->document);

    if (!root)
        return mg_error_set (err, EINVAL, "%s: there are no settings in it", r->path);
    if (root->type != YAML_MAPPING_NODE)
        return refuse (r, root, err, "want groups, each \"NAME:\" with settings below it");
    for (const yaml_node_pair_t *pair = root->data.mapping.pairs.start;
         pair < root->data.mapping.pairs.top; pair++) {
        const yaml_node_t *key = yaml_document_get_node (r->document, pair->key);
        int i = find_group (text_of (key));

        if (i < 0)
            return refuse_group (r, key, err);
        if (r->config->given[i])
            return refuse (r, key, err, "%s is there twice", groups[i].name);
        r->config->given[i] = true;
        if (read_settings (r, yaml_document_get_node (r->document, pair->value), i, err) < 0)
            return -1;
    }
    return 0;
}

/* What the parser could not read. */
static int refuse_yaml (const char *path, const yaml_parser_t *parser, struct mg_error *err)
{
    if (parser->error == YAML_MEMORY_ERROR)
        return mg_error_set (err, ENOMEM, "%s: out of memory", path);
    if (parser->error == YAML_READER_ERROR)
        return mg_error_set (err, EINVAL, "%s: byte %zu: it is no YAML: %s", path,
                             parser->problem_offset, parser->problem);
    return mg_error_set (err, EINVAL, "%s:%zu: it is no YAML: %s", path,
                         parser->problem_mark.line + 1,
                         parser->problem ? parser->problem : "it cannot be read");
}

/* The next document; one that has no root node is the end. */
static int parse_document (const char *path, yaml_parser_t *parser, bool first,
                           struct nccl_config *config, struct mg_error *err)
{
    yaml_document_t document;
    struct reader r = { path, &document, config };
    const yaml_node_t *root;
    int rc = 0;

    if (!yaml_parser_load (parser, &document))
        return refuse_yaml (path, parser, err);
    root = yaml_document_get_root_node (&document);
    if (first)
        rc = read_document (&r, err);
    else if (root)
        rc = refuse (&r, root, err, "a second document, want one");
    yaml_document_delete (&document);
    return rc;
}

struct nccl_config *nccl_config_parse (const char *path, const char *text, size_t len,
                                       struct mg_error *err)
{
    struct nccl_config *config = calloc (1, sizeof (*config));
    yaml_parser_t parser;
    int rc;

    if (!config || !yaml_parser_initialize (&parser)) {
        free (config);
        mg_error_set (err, ENOMEM, "%s: out of memory", path);
        return NULL;
    }
    for (int i = 0; i < NUM_GROUPS; i++)
        config->settings[i] = (struct nccl_settings){ NCCL_UNSET, NCCL_UNSET, NCCL_UNSET,
                                                      NCCL_UNSET, "" };
    yaml_parser_set_input_string (&parser, (const unsigned char *)text, len);
    rc = parse_document (path, &parser, true, config, err);
    if (rc == 0)
        rc = parse_document (path, &parser, false, config, err);
    yaml_parser_delete (&parser);
    if (rc == 0)
        return config;
    free (config);
    return NULL;
}

struct nccl_config *nccl_config_read (const char *path, struct mg_error *err)
{
    char *text = malloc (FILE_MAX + 1);
    int fd = text ? open (path, O_RDONLY | O_CLOEXEC) : -1;
    ssize_t n = fd >= 0 ? durable_read_full (fd, text, FILE_MAX + 1) : -1;
    struct nccl_config *config = NULL;

    if (!text)
        mg_error_set (err, ENOMEM, "%s: out of memory", path);
    else if (n < 0)
        mg_error_set (err, errno, "cannot read %s: %s", path, strerror (errno));
    else if (n > FILE_MAX)
        mg_error_set (err, EFBIG, "%s: more than %d bytes are too many for settings", path,
                      (int)FILE_MAX);
    else
        config = nccl_config_parse (path, text, (size_t)n, err);
    if (fd >= 0)
        close (fd);
    free (text);
    return config;
}

void nccl_config_destroy (struct nccl_config *config)
{
    free (config);
}

/* --- look-up --- */

int nccl_config_num_groups (void)
{
    return NUM_GROUPS;
}

const char *nccl_config_group (int i)
{
    return groups[i].name;
}

const struct nccl_settings *nccl_config_of (const struct nccl_config *config, const char *group)
{
    int i = find_group (group);

    return i >= 0 && config->given[i] ? &config->settings[i] : NULL;
}

const struct nccl_settings *nccl_config_find (const struct nccl_config *config, const char *comm)
{
    for (int i = 0; i < NUM_GROUPS; i++) {
        for (size_t k = 0; k < sizeof (groups[i].comms) / sizeof (groups[i].comms[0]); k++) {
            const char *name = groups[i].comms[k];

            if (name && strcmp (name, comm) == 0)
                return config->given[i] ? &config->settings[i] : NULL;
        }
    }
    return NULL;
}

uint64_t nccl_config_hash (const struct nccl_config *config)
{
    return XXH3_64bits (config->settings, sizeof (config->settings));
}
