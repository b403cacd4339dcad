/* buffers_private - the parts of struct buffers, for the files of this folder. */
#ifndef LIBCORE_OPTIM_BUFFERS_PRIVATE_H
#define LIBCORE_OPTIM_BUFFERS_PRIVATE_H

#include "libcore/device/bounce.h"
#include "libcore/optim/buffers.h"
#include "libcore/optim/stored.h"

/* The memory of one buffer of the layout. */
struct buffers_memory {
    void *param, *grad; /* NULL: none */
    enum mg_dtype param_dtype, grad_dtype;
    size_t bucket; /* its first bucket in the list of all buckets */
};

/* A bucket of any buffer, and its communication that is in progress. */
struct buffers_bucket {
    int buffer, bucket;
    int64_t missing; /* gradients, one for each parameter and microbatch, that the reduction
                        waits for; 0: the reduction was started */
    struct mg_event *gathered; /* recorded behind the gathering of its parameters, with
                                  overlap_param_gather */
    bool gathering;            /* the compute stream has not waited for 'gathered' yet */
};

/* Ranks that share the dense, or the expert, parameters.  Without experts the job has none of the
 * latter communicators, which are NULL then.
 */
struct buffers_peers {
    struct mg_comm *tp;        /* ranks among which parameters are cut */
    struct mg_comm *data;      /* ranks with the same parameters; if sharded, of this instance */
    struct mg_comm *instances; /* ranks with the same shard, NULL: this one alone */
    int tp_rank;
    int rank;        /* the shard that this rank owns */
    bool counts;     /* see buffers_counts() */
    double prescale; /* factor of gradients before they are reduced */
};

/* What kernels find out about a range. */
struct buffers_finding {
    double squares, zeros;   /* sum of squares of its main gradients, how many are 0 */
    struct kern_three three; /* largest magnitudes of values to be stored */
    float largest;           /* magnitude of its main parameters, as they are stored */
};

struct buffers {
    struct buffers_config config;
    const struct job *job;
    struct mg_device *device;
    const struct kernels *kern;
    const struct kernels *host; /* the same operations on host memory */
    struct mg_stream *stream;
    struct mg_comm *control;
    struct buffers_peers peers[2]; /* of dense and of expert parameters */
    struct param *params;
    size_t n;
    int num_tensors;
    bool initial; /* grad of float8 parameters is memory for initial values */
    struct layout *layout;
    struct buffers_memory *memory; /* [layout->num_buffers] */
    struct buffers_range *range;
    size_t num_ranges;
    struct buffers_bucket *bucket; /* all buckets: those of the first buffer, of the second ... */
    size_t num_buckets;
    size_t *bucket_of;          /* [n] bucket of every parameter */
    struct mg_stream *aside;    /* carries collectives that overlap kernels, NULL: none do */
    struct mg_event *computed;  /* compute stream -> aside */
    struct mg_event *caught_up; /* aside -> compute stream */
    struct buffers_finding *findings; /* [num_ranges] in device memory ... */
    struct buffers_finding *found;    /* ... and pinned host memory, for their downloads */
    double *squares;       /* [num_buckets] of gradients before their reduction, in device memory;
                              NULL: without local_norm */
    double *squares_found; /* the same in pinned host memory */
    struct bounce bounce;  /* for values that the host reads and writes */
};

/* The parameter of a range, and the ranks that share it. */
static inline struct param *buffers_param (const struct buffers *b, size_t range)
{
    return &b->params[b->range[range].param];
}

static inline const struct buffers_peers *buffers_peers_of (const struct buffers *b,
                                                            const struct param *p)
{
    return &b->peers[p->expert];
}

/* The type of the parameters, and of the gradients, of a range. */
static inline enum mg_dtype buffers_param_dtype (const struct buffers *b, size_t range)
{
    return b->memory[b->range[range].buffer].param_dtype;
}

static inline enum mg_dtype buffers_grad_dtype (const struct buffers *b, size_t range)
{
    return b->memory[b->range[range].buffer].grad_dtype;
}

/* The initial values of float8 parameters are no longer needed: gradients are zero again, or
 * without gradients their memory is freed.
 */
int buffers_drop_initial (struct buffers *b, struct mg_error *err);

/* largest[i] = the largest of all ranks' largest[i], on all ranks.  Host memory.  Collective
 * over all ranks; blocks.
 */
int buffers_agree_largest (struct buffers *b, float *largest, size_t n, struct mg_error *err);

/* Clear the device's findings, before kernels write new ones; and enqueue the download of these,
 * which are in b->found after a wait for the stream; and the same with a wait.
 */
int buffers_clear_findings (struct buffers *b, struct mg_error *err);
int buffers_download_findings (struct buffers *b, struct mg_error *err);
int buffers_fetch_findings (struct buffers *b, struct mg_error *err);

/* Enqueue the download of what buffers_local_norm() adds up, if that is kept. */
int buffers_download_squares (struct buffers *b, struct mg_error *err);

/* What communication needs besides the memory: buffers_sync.c.  Pinned host memory is counted by
 * buffers_squares_bytes().
 */
size_t buffers_squares_bytes (const struct buffers *b);
int buffers_sync_bind (struct buffers *b, struct mg_error *err);
void buffers_sync_clear (struct buffers *b);

#endif /* LIBCORE_OPTIM_BUFFERS_PRIVATE_H */
