/* nccl_config - settings of NCCL for the communicators of groups, from a file in YAML.
 *
 * The file is that of Megatron-LM's --nccl-communicator-config-path: a mapping of groups, each of
 * which is a mapping of settings.  Groups and settings have the names of its get_nccl_options() and
 * initialize_model_parallel() (core/parallel_state.py):
 *
 *     dp_cp:
 *       cga_cluster_size: 2
 *       min_ctas: 1
 *       max_ctas: 8
 *       net_name: IB
 *
 * A group that this program makes no communicator for has settings without effect, and so has
 * is_high_priority_stream, since NCCL's work is on streams of this program.
 */
#ifndef LIBCORE_COMM_NCCL_CONFIG_H
#define LIBCORE_COMM_NCCL_CONFIG_H

#include <stddef.h>
#include <stdint.h>

#include "megatron/error.h"

enum { NCCL_UNSET = -1, NCCL_NET_NAME_MAX = 8 };

/* NCCL_UNSET, or "" for the name: as NCCL decides. */
struct nccl_settings {
    int cga_cluster_size;             /* 0 to 8 */
    int min_ctas, max_ctas;           /* 1 to 64, min_ctas <= max_ctas if both are set */
    int high_priority;                /* 0 or 1 */
    char net_name[NCCL_NET_NAME_MAX]; /* "IB" or "Socket" */
};

struct nccl_config;

/* Read a file.  NULL, errno and a text on failure, which begins with "PATH:LINE: " where a line is
 * to blame, and says what is allowed: YAML that is damaged, a name that there is not, or that is
 * there twice, a value that is out of range.  A file without a mapping is refused.
 */
struct nccl_config *nccl_config_read (const char *path, struct mg_error *err);

/* Parse the text of a file; 'path' is for errors. */
struct nccl_config *nccl_config_parse (const char *path, const char *text, size_t len,
                                       struct mg_error *err);
void nccl_config_destroy (struct nccl_config *config);

/* The number of groups in Megatron-LM's list, and the name of one. */
int nccl_config_num_groups (void);
const char *nccl_config_group (int i);

/* The settings of a group by Megatron-LM's name, NULL: the file has none for it, or there is no
 * such group.
 */
const struct nccl_settings *nccl_config_of (const struct nccl_config *config, const char *group);

/* The settings of one of the job's communicators by its name (job/comm_list.h), NULL: none. */
const struct nccl_settings *nccl_config_find (const struct nccl_config *config, const char *comm);

/* A hash of all settings, which all ranks must have in common. */
uint64_t nccl_config_hash (const struct nccl_config *config);

#endif /* LIBCORE_COMM_NCCL_CONFIG_H */
