/* optimizer_private - an optimizer's parts, for its files. */
#ifndef LIBCORE_OPTIM_OPTIMIZER_PRIVATE_H
#define LIBCORE_OPTIM_OPTIMIZER_PRIVATE_H

#include "libcore/optim/optimizer.h"

/* The memories of a buffer. */
enum {
    MEMORY_PARAM,
    MEMORY_GRAD,
    MEMORY_MAIN_GRAD, /* this and the following are of the rank's shards of all buckets, one
                         behind the other */
    MEMORY_MAIN,
    MEMORY_EXP_AVG,
    MEMORY_EXP_AVG_SQ,
    NUM_MEMORIES
};

/* What is stored for a buffer.  Of float32 parameters the main parameters are the parameters,
 * of gradients in the type that updates read the main gradients are the gradients: they have
 * no memory of their own.
 */
struct store {
    enum mg_dtype dtype[NUM_MEMORIES];
    bool frozen, keep_main; /* see struct optimizer_config */
    bool remainders; /* MEMORY_MAIN has the lower halves of main parameters, in two bytes as
                        its type says, MEMORY_PARAM the upper ones */
    void *memory[NUM_MEMORIES]; /* NULL: none */
    void *copy[NUM_MEMORIES];   /* of the rank's shards, for checkpoints; NULL: none */
    size_t bucket;              /* its first one in the list of all buckets */
};

/* A range, and where it is in each memory. */
struct range {
    struct optimizer_range at;
    const struct store *store;
    void *memory[NUM_MEMORIES], *copy[NUM_MEMORIES];
    float scale[NUM_MEMORIES], copy_scale[NUM_MEMORIES]; /* that each is stored with now */
};

/* A bucket of any buffer, and what is under way for it. */
struct sync {
    int buffer, bucket;
    int64_t missing; /* gradients, one for each parameter and microbatch, before it can be
                        reduced; 0: it has been */
    struct mg_event *gathered; /* its parameters have come, if overlapped */
    bool gathering;            /* and nobody has waited for them yet */
};

/* Ranks that have to do with the same parameters. */
struct peers {
    struct mg_comm *tp;        /* those that cut parameters among them */
    struct mg_comm *data;      /* those with the same parameters; of a sharded optimizer of
                                  this instance */
    struct mg_comm *instances; /* those with the same shard, NULL: this one alone */
    int tp_rank;
    int rank;        /* whose shards are updated */
    bool counts;     /* norms of this rank's ranges enter the sum */
    double prescale; /* what gradients are multiplied by before they are reduced */
    float *packed;   /* gradients of the sequence-parallel parameters, one after another */
    int64_t num_packed;
};

/* What kernels find out about a range. */
struct finding {
    double squares, zeros;   /* sum of squares of its main gradients, how many are 0 */
    struct kern_three three; /* largest magnitudes of values to be stored */
    float largest;           /* magnitude of its main parameters, as they are stored */
};

struct optimizer {
    struct optimizer_config config;
    struct mg_device *device;
    const struct kernels *kern;
    const struct kernels *host; /* the same ops on host memory */
    struct mg_stream *stream;
    struct mg_comm *embd, *control;
    struct peers peers[2]; /* of dense and of expert parameters */
    struct param *params;
    size_t n;
    bool initial; /* gradients of float8 parameters are memory for initial values */
    int num_tensors;
    struct layout *layout;
    struct store *store; /* [layout->num_buffers] */
    struct range *range;
    size_t num_ranges;
    struct sync *sync; /* all buckets: those of the first buffer, of the second ... */
    size_t num_syncs;
    size_t *sync_of;         /* [n] bucket of every parameter */
    struct mg_stream *aside; /* carries collectives that overlap kernels, NULL: none do */
    struct mg_event *computed; /* compute stream -> aside */
    struct mg_event *caught_up; /* aside -> compute stream */
    struct mg_stream *reader; /* converts what is copied, for another thread; NULL: no copy */
    struct finding *findings;   /* [num_ranges], device memory ... */
    struct finding *found;      /* ... and what the host has fetched of it */
    struct kern_three *agreed;  /* [num_tensors] largest magnitudes over all ranks, NULL: nothing
                                   is scaled */
    double *reduced; /* [num_tensors + OPTIMIZER_MAX_EXTRA + 1] */
    int64_t num_zeros;
    float *largest;  /* [num_tensors] magnitudes of main parameters of float8 ones */
    int64_t steps;
};

/* Element i of a memory of the whole buffer. */
void *optimizer_at (const struct store *store, int memory, int64_t i);

/* Those of a parameter. */
static inline const struct peers *optimizer_peers (const struct optimizer *o,
                                                   const struct param *p)
{
    return &o->peers[p->expert];
}

/* How main parameters or a moment of a range, or their copies, are stored, from its element
 * 'from' on.
 */
struct kern_state optimizer_state (const struct range *r, bool copied, int memory,
                                   int64_t from);

/* Has it main parameters apart from the parameters, for the time being or always? */
static inline bool optimizer_has_main (const struct range *r)
{
    return r->memory[MEMORY_MAIN] && r->memory[MEMORY_MAIN] != r->memory[MEMORY_PARAM];
}

/* Let a range have them, for a frozen optimizer to make parameters of; and take from all what
 * was only for that.
 */
int optimizer_hold_main (struct optimizer *o, struct range *r, struct mg_error *err);
void optimizer_drop_main (struct optimizer *o);

/* The memory that has a value. */
int optimizer_memory_of (enum optimizer_value value);

/* Is it stored with a scale? */
bool optimizer_is_scaled (const struct store *s, int memory);

/* Forget the device's findings, before kernels that have new ones; and wait for these, which are
 * in o->found afterwards.
 */
int optimizer_clear_findings (struct optimizer *o, struct mg_error *err);
int optimizer_fetch_findings (struct optimizer *o, struct mg_error *err);

/* Of ranges whose largest magnitudes are the device's findings: the scales of their tensors.  All
 * ranks call it; blocks.
 */
int optimizer_find_scales (struct optimizer *o, struct mg_error *err);
struct kern_three optimizer_scales (const struct optimizer *o, const struct range *r);

/* Layout and memory: what optimizer_create() allocates, and gives back. */
struct layout *optimizer_layout (const struct optimizer_config *config, const struct job *job,
                                 const struct param *params, size_t n, struct mg_error *err);
int optimizer_allocate (struct optimizer *o, struct mg_error *err);
void optimizer_free (struct optimizer *o);

/* Do a rank's ranges of dense or expert parameters count, or others that hold the same? */
bool optimizer_counted (const struct optimizer_config *config, const struct job *job,
                        bool expert);

/* optimizer_plain() and optimizer_read() of a range, or of its copies, by way of 'stream'. */
float *optimizer_plain_in (const struct range *r, bool copied, enum optimizer_value value);
int optimizer_read_in (struct optimizer *o, const struct range *r, bool copied,
                       enum optimizer_value value, int64_t from, int64_t n, float *out,
                       struct mg_stream *stream, struct mg_error *err);

/* Copies of a buffer's memories, for checkpoints: their bytes where there are any, and what is
 * allocated once its types are known.
 */
int64_t optimizer_snapshot_bytes (const struct store *s, const struct layout *layout,
                                  const struct layout_buffer *buffer);
int optimizer_snapshot_allocate (struct optimizer *o, struct store *s,
                                 const struct layout_buffer *buffer, struct mg_error *err);

/* What is allocated for the collectives, once the layout is there. */
int optimizer_sync_setup (struct optimizer *o, struct mg_error *err);
void optimizer_sync_clear (struct optimizer *o);

/* Float8 parameters of this rank's shards from the main ones, before they are gathered, and
 * the scales of all.  Collective over all ranks, also on a rank that fails; blocks.  Nothing
 * without them.
 */
int optimizer_quantise (struct optimizer *o, struct mg_error *err);

/* Float8 parameters, on all ranks, from main ones that were made of initial values; and
 * gradients, where these were, to zero.
 */
int optimizer_give_float8 (struct optimizer *o, struct mg_error *err);

#endif /* LIBCORE_OPTIM_OPTIMIZER_PRIVATE_H */
