/* nccl_config.c - files of settings for NCCL: what is accepted is in range
 *
 * Input: the file.
 */

#include <stdlib.h>
#include <string.h>

#include "libcore/comm/nccl_config.h"
#include "tests/fuzz/fuzz.h"

static void check (const struct nccl_settings *s, const char *group)
{
    fuzz_check (s->cga_cluster_size >= NCCL_UNSET && s->cga_cluster_size <= 8, "%s: cga", group);
    fuzz_check (s->min_ctas == NCCL_UNSET || (s->min_ctas >= 1 && s->min_ctas <= 64), "%s: min",
                group);
    fuzz_check (s->max_ctas == NCCL_UNSET || (s->max_ctas >= 1 && s->max_ctas <= 64), "%s: max",
                group);
    fuzz_check (s->max_ctas == NCCL_UNSET || s->min_ctas <= s->max_ctas, "%s: min above max",
                group);
    fuzz_check (!s->net_name[0] || strcmp (s->net_name, "IB") == 0
                    || strcmp (s->net_name, "Socket") == 0, "%s: net", group);
}

static void run (const uint8_t *data, size_t size)
{
    char *bytes = fuzz_copy ((struct fuzz_input){ data, size });
    struct nccl_config *config = nccl_config_parse ("file", bytes, size, NULL);

    free (bytes);
    for (int i = 0; config && i < nccl_config_num_groups (); i++) {
        const struct nccl_settings *s = nccl_config_of (config, nccl_config_group (i));

        if (s)
            check (s, nccl_config_group (i));
    }
    nccl_config_destroy (config);
}

const struct fuzz_target fuzz_nccl_config = { "nccl_config", run };
