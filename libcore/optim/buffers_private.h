/* buffers_private - the members of struct buffers, for the files of this folder. */
#ifndef LIBCORE_OPTIM_BUFFERS_PRIVATE_H
#define LIBCORE_OPTIM_BUFFERS_PRIVATE_H

#include "libcore/device/bounce.h"
#include "libcore/optim/buffers.h"
#include "libcore/optim/stored.h"

/* The memory of one buffer of the layout. */
struct buffers_memory {
    void *param, *grad; /* NULL: none */
    enum mg_dtype param_dtype, grad_dtype;
    size_t bucket; /* number of its first bucket in the list of all buckets */
};

/* A bucket of any buffer, and its communication that is in progress. */
struct buffers_bucket {
    int buffer, bucket;
    int64_t missing; /* gradients, one for each parameter and microbatch, that the reduction
                        waits for; 0: the reduction was started */
    struct mg_event *gathered; /* recorded after the gathering of the bucket's parameters,
                                  with overlap_param_gather */
    bool gathering;            /* the compute stream has not waited for 'gathered' yet */
};

/* Ranks that share the dense parameters, or the parameters of experts.  Without experts,
 * the communicators for experts are NULL.
 */
struct buffers_peers {
    struct mg_comm *tp;        /* ranks among which parameters are cut */
    struct mg_comm *data;      /* ranks with the same parameters; if sharded, only those
                                * of this instance */
    struct mg_comm *instances; /* ranks with the same shard; NULL: no other rank has it */
    int tp_rank;
    int rank;        /* the shard that this rank owns */
    bool counts;     /* see buffers_counts() */
    double prescale; /* factor of gradients before they are reduced */
};

/* The results that kernels compute of a range. */
struct buffers_finding {
    double squares, zeros;   /* sum of squares of its main gradients, number of zeros */
    struct kern_three three; /* largest magnitudes of values to be stored */
    float largest;           /* largest magnitude of its main parameters as they are stored */
};

struct buffers {
    struct buffers_config config;
    const struct job *job;
    struct mg_device *device;
    const struct kernels *kern;
    const struct kernels *host; /* the same operations on host memory */
    struct mg_stream *stream;
    struct mg_comm *control;
    struct buffers_peers peers[2]; /* ranks of the dense and of the expert parameters */
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
    double *squares;       /* [num_buckets] sums of squares of gradients before their
                              reduction, in device memory; NULL: without local_norm */
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

/* Drop the initial values of float8 parameters: set gradients to zero again or, in
 * buffers without gradients, free the memory.
 */
int buffers_drop_initial (struct buffers *b, struct mg_error *err);

/* largest[i] = the maximum over all ranks of largest[i], on all ranks.  'largest' is in
 * host memory.  Collective over all ranks; blocks.
 */
int buffers_agree_largest (struct buffers *b, float *largest, size_t n, struct mg_error *err);

/* Three functions for findings.  The first clears the findings on the device, before
 * kernels write new ones.  The second enqueues their download to b->found, which is
 * complete after a wait for the stream.  The third downloads the findings and waits.
 */
int buffers_clear_findings (struct buffers *b, struct mg_error *err);
int buffers_download_findings (struct buffers *b, struct mg_error *err);
int buffers_fetch_findings (struct buffers *b, struct mg_error *err);

/* Enqueue the download of the sums of squares for buffers_local_norm(), if local_norm is
 * set. */
int buffers_download_squares (struct buffers *b, struct mg_error *err);

/* Memory and events of the communication (buffers_sync.c).  buffers_squares_bytes()
 * returns the bytes of pinned host memory.
 */
size_t buffers_squares_bytes (const struct buffers *b);
int buffers_sync_bind (struct buffers *b, struct mg_error *err);
void buffers_sync_clear (struct buffers *b);

#endif /* LIBCORE_OPTIM_BUFFERS_PRIVATE_H */
