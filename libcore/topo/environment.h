/* environment - the environment variables in which a job passes its sizes to a task, and
 * their reader.
 *
 * The plugin writes these variables for each task of srun (plugin/contract.h); under mpirun a user
 * may set them.  Programs read them here.  None of them is a variable that the plugin
 * reads as a default (MEGATRON_TP), so that an srun inside a task ignores the sizes of
 * that task.
 */
#ifndef LIBCORE_TOPO_ENVIRONMENT_H
#define LIBCORE_TOPO_ENVIRONMENT_H

#include "libcore/topo/geometry.h"

#define ENVIRONMENT_TP "MEGATRON_TP_SIZE"
#define ENVIRONMENT_CP "MEGATRON_CP_SIZE"
#define ENVIRONMENT_PP "MEGATRON_PP_SIZE"
#define ENVIRONMENT_EP "MEGATRON_EP_SIZE"
#define ENVIRONMENT_ETP "MEGATRON_ETP_SIZE"
#define ENVIRONMENT_VPP "MEGATRON_VPP_SIZE"
#define ENVIRONMENT_ORDER "MEGATRON_RANK_ORDER"

/* The CUDA_DEVICE_MAX_CONNECTIONS that the plugin or megatron launch has set, and not the user.  It
 * is PyTorch's: the CUDA device of the library replaces it.
 */
#define ENVIRONMENT_CONNECTIONS "MEGATRON_CUDA_CONNECTIONS"

/* The variable of each field of a geometry. */
extern const char *const environment_names[GEOMETRY_NUM_FIELDS];

/* The value of a variable, NULL if it is not set: getenv(), or a test's own function. */
typedef char *(*environment_get_f) (const char *name);

/* Set the fields of 'g' whose variables are set; the others stay as they are.  '*given'
 * gets the bit 1 << field of each field that is set; 'given' may be NULL.  Each value is
 * checked by itself.  0, or -1 with EINVAL or ERANGE and a text that names the variable;
 * 'g' is then unchanged.
 */
int environment_read (environment_get_f get, struct geometry *g, unsigned *given,
                      struct mg_error *err);

#endif /* LIBCORE_TOPO_ENVIRONMENT_H */
