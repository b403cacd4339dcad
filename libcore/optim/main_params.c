/* main_params.c - memory of main parameters, and the ways between them and the model's
 *
 * Main parameters get values in three ways: main_params_init() copies initial values of the model's
 * parameters, main_params_write() copies loaded values from host memory, and the optimizer's update
 * writes both kinds of parameters.  main_params_to_model() alone makes the model's parameters of
 * the main ones.
 *
 * Invariants: place[].data of a range is the model's parameters if these are float32, memory of
 * its own if main parameters are kept, memory outside the plan between a write and
 * main_params_to_model() if not, else NULL.
 * All ranks take part in the collectives of main_params_init() and main_params_to_model(), also a
 * rank on which the latter fails.
 */

#include <errno.h>
#include <stdlib.h>

#include "libcore/optim/main_params_private.h"
#include "libcore/optim/stored.h"

/* --- memory --- */

static bool stores_halves (const struct main_params_config *c, enum mg_dtype param)
{
    return c->remainders && c->dtype == MG_FLOAT32 && param == MG_BFLOAT16;
}

bool main_params_has_halves (const struct main_params *m, int buffer)
{
    return stores_halves (&m->config, m->buffers->memory[buffer].param_dtype);
}

static void choose_types (struct main_params *m)
{
    for (int i = 0; i < m->buffers->layout->num_buffers; i++) {
        enum mg_dtype param = m->buffers->memory[i].param_dtype;
        struct owned_buffer *v = &m->value.buffer[i];

        v->apart = param != MG_FLOAT32 && m->config.keep;
        v->dtype = param == MG_FLOAT32               ? MG_FLOAT32
                   : stores_halves (&m->config, param) ? MG_BFLOAT16
                                                       : m->config.dtype;
    }
}

struct main_params *main_params_create (const struct main_params_config *config,
                                        struct buffers *buffers, struct mg_error *err)
{
    struct main_params *m;

    if (!(m = calloc (1, sizeof (*m)))) {
        mg_error_set (err, ENOMEM, "main parameters: out of memory");
        return NULL;
    }
    m->config = *config;
    m->buffers = buffers;
    if (owned_create (&m->value, buffers, "main parameters", err) < 0) {
        main_params_destroy (m);
        return NULL;
    }
    choose_types (m);
    return m;
}

static bool is_held (const struct main_params *m, size_t range)
{
    return !m->config.keep && buffers_param_dtype (m->buffers, range) != MG_FLOAT32;
}

/* Let a range have main parameters that are not kept. */
static int hold (struct main_params *m, size_t range, struct mg_error *err)
{
    const struct buffers_range *r = &m->buffers->range[range];
    const size_t n = (size_t)(r->to - r->from);
    void **data = &m->value.place[range].data;

    if (!*data
        && !(*data = device_alloc_apart (m->buffers->device,
                                         n * mg_dtype_size (owned_dtype (&m->value, range)),
                                         err)))
        return mg_error_prefix (err, "%zu main parameters", n);
    return 0;
}

/* Take from all ranges main parameters that are not kept. */
static void drop (struct main_params *m)
{
    for (size_t i = 0; m->value.place && i < m->buffers->num_ranges; i++) {
        if (!is_held (m, i))
            continue;
        device_free (m->buffers->device, m->value.place[i].data);
        m->value.place[i].data = NULL;
    }
}

void main_params_destroy (struct main_params *m)
{
    int saved_errno = errno;

    if (!m)
        return;
    drop (m);
    owned_clear (&m->value);
    free (m->found);
    free (m->largest);
    free (m);
    errno = saved_errno;
}

int64_t main_params_bytes (const struct main_params *m)
{
    return owned_bytes (&m->value);
}

int main_params_bind (struct main_params *m, struct mg_error *err)
{
    const struct buffers *b = m->buffers;

    m->found = calloc (b->num_ranges + 1, sizeof (*m->found));
    m->largest = calloc ((size_t)b->num_tensors + 1, sizeof (*m->largest));
    if (!m->found || !m->largest)
        return mg_error_set (err, ENOMEM, "main parameters: out of memory");
    if (owned_bind (&m->value, err) < 0)
        return -1;
    for (size_t i = 0; i < b->num_ranges; i++) {
        if (buffers_param_dtype (b, i) == MG_FLOAT32)
            m->value.place[i].data = b->range[i].data;
        if (main_params_has_halves (m, b->range[i].buffer))
            m->value.place[i].upper = b->range[i].data;
    }
    return 0;
}

bool main_params_is_rounded (const struct main_params *m, size_t range)
{
    enum mg_dtype dtype = buffers_param_dtype (m->buffers, range);

    return m->value.place[range].data && dtype != MG_FLOAT32 && dtype != MG_FLOAT8_E4M3
           && !main_params_has_halves (m, m->buffers->range[range].buffer);
}

/* --- from initial values --- */

/* Returns the address of the initial values of a range, and their type.  The initial values of
 * float8 parameters are in the memory of their gradients.
 */
static const void *initial_values (const struct main_params *m, size_t range,
                                   enum mg_dtype *dtype)
{
    const struct buffers_range *r = &m->buffers->range[range];
    const struct param *p = buffers_param (m->buffers, range);

    *dtype = p->dtype;
    return p->storage == MG_FLOAT8_E4M3
               ? (const char *)p->grad + (size_t)r->from * mg_dtype_size (p->dtype)
               : r->data;
}

/* Choose the scales of main parameters that are about to be made of initial values. */
static int scale_initial (struct main_params *m, struct mg_error *err)
{
    struct buffers *b = m->buffers;

    if (buffers_clear_findings (b, err) < 0)
        return -1;
    for (size_t i = 0; i < b->num_ranges; i++) {
        enum mg_dtype dtype;
        const void *values = initial_values (m, i, &dtype);

        if (kern_max_abs (b->kern,
                          &(struct kern_max_abs){ .n = b->range[i].to - b->range[i].from,
                                                  .x = values, .dtype = dtype,
                                                  .out = &b->findings[i].largest },
                          b->stream, err) < 0)
            return -1;
    }
    if (buffers_fetch_findings (b, err) < 0)
        return -1;
    for (size_t i = 0; i < b->num_ranges; i++)
        m->found[i] = b->found[i].largest;
    if (main_params_agree_largest (m, err) < 0)
        return mg_error_prefix (err, "scales of the optimizer's state");
    for (size_t i = 0; i < b->num_ranges; i++)
        m->value.place[i].scale = kern_scale (owned_dtype (&m->value, i),
                                              m->largest[buffers_param (b, i)->order]);
    return 0;
}

static int take_range (struct main_params *m, size_t range, struct mg_error *err)
{
    const struct buffers_range *r = &m->buffers->range[range];
    enum mg_dtype dtype;
    const void *values = initial_values (m, range, &dtype);

    if (buffers_param_dtype (m->buffers, range) == MG_FLOAT8_E4M3 && hold (m, range, err) < 0)
        return -1;
    if (!m->value.place[range].data || m->value.place[range].data == r->data)
        return 0;
    return kern_state_store (m->buffers->kern,
                             &(struct kern_state_store){
                                 .n = r->to - r->from, .in = values, .dtype = dtype,
                                 .state = owned_state (&m->value, range, 0) },
                             m->buffers->stream, err);
}

int main_params_init (struct main_params *m, struct mg_error *err)
{
    struct buffers *b = m->buffers;

    if (kern_has_scale (m->config.dtype) && scale_initial (m, err) < 0)
        return -1;
    for (size_t i = 0; i < b->num_ranges; i++) {
        if (take_range (m, i, err) < 0)
            return -1;
    }
    if (m->config.float8 && (main_params_quantise (m, err) < 0 || buffers_gather (b, err) < 0))
        return -1;
    if (mg_stream_synchronize (b->stream, err) < 0)
        return -1;
    drop (m);
    return m->config.float8 ? buffers_drop_initial (b, err) : 0;
}

/* --- from loaded values --- */

/* True if main parameters exist apart from the model's, on all ranks that share these alike. */
static bool are_apart (const struct main_params *m)
{
    for (int i = 0; i < m->buffers->layout->num_buffers; i++) {
        if (m->buffers->memory[i].param_dtype != MG_FLOAT32)
            return true;
    }
    return false;
}

static int round_params (struct main_params *m, struct mg_error *err)
{
    struct buffers *b = m->buffers;

    for (size_t i = 0; i < b->num_ranges; i++) {
        const struct buffers_range *r = &b->range[i];

        if (main_params_is_rounded (m, i)
            && kern_state_load (b->kern,
                                &(struct kern_state_load){
                                    .n = r->to - r->from,
                                    .state = owned_state (&m->value, i, 0),
                                    .out = r->data, .dtype = buffers_param_dtype (b, i) },
                                b->stream, err) < 0)
            return -1;
    }
    return 0;
}

/* After a failure the other steps up to the gathering are made nevertheless, since other ranks wait
 * in some of them.  The first failure is returned.
 */
int main_params_to_model (struct main_params *m, struct mg_error *err)
{
    struct buffers *b = m->buffers;
    struct mg_error later, *why;
    int rc = 0, errnum;

    if (!are_apart (m) && !m->config.float8)
        return 0;
    /* A gathering that has begun would overwrite these parameters: end it first. */
    if (buffers_params_needed (b, 0, b->n, err) < 0 || round_params (m, err) < 0)
        rc = -1;
    errnum = errno;
    why = rc < 0 ? &later : err;
    if ((main_params_quantise (m, why) < 0 || mg_stream_synchronize (b->stream, why) < 0)
        && rc == 0) {
        rc = -1;
        errnum = errno;
    }
    drop (m);
    if (buffers_gather (b, rc < 0 ? &later : err) < 0 && rc == 0)
        return -1;
    errno = errnum;
    return rc;
}

/* --- single ranges --- */

float *main_params_plain (const struct main_params *m, size_t range)
{
    return owned_plain (&m->value, range);
}

static int read_param (struct main_params *m, size_t range, int64_t from, int64_t n, float *out,
                       struct mg_error *err)
{
    struct buffers *b = m->buffers;
    enum mg_dtype dtype = buffers_param_dtype (b, range);
    const struct param *p = buffers_param (b, range);
    const struct stored s = {
        .at = { .data = (char *)b->range[range].data + (size_t)from * mg_dtype_size (dtype),
                .dtype = dtype },
        .cast = true,
        .factor = p->storage == MG_FLOAT8_E4M3 ? p->scale : 1,
    };

    return stored_read (b->host, &s, n, out, &b->bounce, b->stream, err);
}

int main_params_read (struct main_params *m, size_t range, int64_t from, int64_t n, float *out,
                      struct mg_error *err)
{
    if (!m->value.place[range].data)
        return read_param (m, range, from, n, out, err);
    return owned_read (&m->value, range, from, n, out, m->buffers->stream, err);
}

int main_params_write (struct main_params *m, size_t range, const float *in,
                       struct mg_error *err)
{
    struct buffers *b = m->buffers;

    if (hold (m, range, err) < 0)
        return -1;
    if (main_params_has_halves (m, b->range[range].buffer) /* changes the model's parameters too */
        && buffers_params_needed (b, 0, b->n, err) < 0)
        return -1;
    return owned_write (&m->value, range, in, b->stream, err);
}
