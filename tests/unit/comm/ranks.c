/* ranks.c - test communicators among the ranks that this is started with
 *
 *     ranks.t [ordered]
 *
 * "ordered": sums are in rank order on GPUs, too (job_config.ordered_sums); the checks are those of
 * reductions.
 *
 * All ranks make every check; rank 0 prints a line for all of them, and says which rank
 * failed.  What the ranks found is collected through the bootstrap, not through what is
 * being tested.
 */

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/base/flush.h"
#include "libcore/bootstrap/bootstrap.h"
#include "libcore/comm/comm.h"
#include "libcore/comm/reduce.h"
#include "libcore/device/device.h"
#include "libcore/device/device_ops.h"
#include "libcore/device/graph.h"
#include "libcore/device/stream.h"
#include "libcore/job/job.h"
#include "tests/tap/tap.h"
#include "tests/unit/comm/captured.h"
#include "tests/unit/comm/staged.h"
#include "tests/unit/comm/values.h"

struct test {
    struct bootstrap *bootstrap;
    struct job *job;
    struct mg_comm *comm;
    struct mg_stream *a, *b; /* comm streams */
    int rank, size;
    bool apart; /* on GPUs: communicators are serial */
    bool own_order; /* sums have an order of their own */
    struct mg_error err;
};

/* Every rank says whether it is content; rank 0 prints. */
static void all_ok (struct test *t, bool pass, const char *fmt, ...)
    __attribute__ ((format (printf, 3, 4)));

static void all_ok (struct test *t, bool pass, const char *fmt, ...)
{
    char text[200], what[120] = "", verdict[MG_ERROR_MAX + 8];
    struct mg_error err;
    size_t len;
    va_list ap;
    int bad = 0;

    va_start (ap, fmt);
    vsnprintf (text, sizeof (text), fmt, ap);
    va_end (ap);
    memset (verdict, 0, sizeof (verdict));
    snprintf (verdict, sizeof (verdict), "%d %s", pass, pass ? "" : t->err.text);
    if (bootstrap_exchange (t->bootstrap, verdict, strlen (verdict) + 1, &err) < 0) {
        fprintf (stderr, "rank %d: %s\n", t->rank, err.text);
        bootstrap_abort (t->bootstrap, 1);
    }
    if (t->rank != 0)
        return;
    for (int r = 0; r < t->size; r++) {
        if (bootstrap_peer_data (t->bootstrap, r, verdict, sizeof (verdict), &len, &err)
                < 0
            || verdict[0] != '1') {
            if (bad++ == 0)
                snprintf (what, sizeof (what), " (rank %d: %.80s)", r, verdict + 2);
        }
    }
    ok (bad == 0, "%s%s", text, what);
}

/* Values repeat, so that long buffers are made fast.  A prime: no cut of a buffer is a multiple. */
enum { PERIOD = 10007 };

static double value (enum mg_dtype dtype, uint32_t seed, int r, size_t i)
{
    return value_of (dtype, seed, r, i % PERIOD);
}

/* The first PERIOD elements of a buffer are there: repeat them up to element n - 1. */
static void repeat (enum mg_dtype dtype, void *buf, size_t n)
{
    size_t elem = mg_dtype_size (dtype);

    for (size_t i = PERIOD; i < n; i += PERIOD)
        memcpy ((char *)buf + i * elem, buf, (n - i < PERIOD ? n - i : PERIOD) * elem);
}

/* Elements first ... first + n - 1 of rank r's values. */
static void fill (enum mg_dtype dtype, void *buf, uint32_t seed, int r, size_t first, size_t n)
{
    for (size_t i = 0; i < n && i < PERIOD; i++)
        value_put (dtype, buf, i, value (dtype, seed, r, first + i));
    repeat (dtype, buf, n);
}

/* A buffer with rank r's values, 'n' elements and one guard element behind. */
static void *make (enum mg_dtype dtype, uint32_t seed, int r, size_t n)
{
    void *buf = calloc (n + 1, mg_dtype_size (dtype));

    fill (dtype, buf, seed, r, 0, n + 1);
    return buf;
}

static bool same (enum mg_dtype dtype, const void *x, const void *y, size_t n)
{
    return memcmp (x, y, n * mg_dtype_size (dtype)) == 0;
}

/* The result of a reduction, and what it must be: the same bits, or on GPUs, where the order of a
 * sum is NCCL's and each of its steps rounds, numbers that are as close as such sums are.
 */
static bool same_sum (const struct test *t, enum mg_dtype dtype, const void *x, const void *y,
                      size_t n)
{
    static const double step[MG_NUM_DTYPES] = {
        [MG_FLOAT32] = 0x1p-23, [MG_FLOAT64] = 0x1p-52, [MG_BFLOAT16] = 0x1p-7,
        [MG_FLOAT16] = 0x1p-10,
    };
    double room = step[dtype] * 160 * t->size * t->size;

    if (!t->own_order || step[dtype] == 0)
        return same (dtype, x, y, n);
    for (size_t i = 0; i < n; i++) {
        double d = value_get (dtype, x, i) - value_get (dtype, y, i);

        if (!(d <= room && -d <= room))
            return false;
    }
    return true;
}

/* What elements first ... first + n - 1 of the reduction of all ranks' make() must be. */
static void *reduced (struct test *t, enum mg_dtype dtype, enum mg_reduce_op op,
                      uint32_t seed, size_t first, size_t n)
{
    void *want = calloc (n + 1, mg_dtype_size (dtype)), *one = calloc (1, 8);

    for (size_t i = 0; i < n && i < PERIOD; i++) {
        double acc = 0.0;

        for (int r = 0; r < t->size; r++) {
            value_put (dtype, one, 0, value (dtype, seed, r, first + i));
            acc = r == 0 ? value_get (dtype, one, 0)
                         : value_combine (dtype, op, acc, value_get (dtype, one, 0));
        }
        value_put (dtype, want, i, value_finish (dtype, op, acc, t->size));
    }
    repeat (dtype, want, n);
    free (one);
    return want;
}

static const char *const op_names[] = { "sum", "max", "min", "average" };

static void all_reduce (struct test *t, enum mg_dtype dtype, enum mg_reduce_op op,
                        size_t n)
{
    uint32_t seed = (uint32_t)(n + dtype * 10 + op);
    void *buf = make (dtype, seed, t->rank, n);
    void *want = reduced (t, dtype, op, seed, 0, n);
    int rc = staged_all_reduce (t->comm, buf, n, dtype, op, NULL, &t->err);

    // the guard is as it was
    value_put (dtype, want, n, value (dtype, seed, t->rank, n));
    all_ok (t, rc == 0 && same_sum (t, dtype, buf, want, n + 1), "all-reduce: %s of %zu %s",
            op_names[op], n, mg_dtype_name (dtype));
    free (buf);
    free (want);
}

static void reduce_scatter (struct test *t, enum mg_dtype dtype, enum mg_reduce_op op,
                            size_t n)
{
    size_t all = n * (size_t)t->size, elem = mg_dtype_size (dtype);
    void *send = make (dtype, 3, t->rank, all), *recv = make (dtype, 4, t->rank, n);
    void *want = reduced (t, dtype, op, 3, n * (size_t)t->rank, n);
    char *own = (char *)send + n * elem * (size_t)t->rank;
    bool pass;

    value_put (dtype, want, n, value (dtype, 4, t->rank, n)); // the guard
    pass = staged_reduce_scatter (t->comm, send, recv, n, dtype, op, t->a, &t->err) == 0
           && mg_stream_synchronize (t->a, &t->err) == 0
           && same_sum (t, dtype, recv, want, n + 1);
    // in place
    pass = pass && staged_reduce_scatter (t->comm, send, own, n, dtype, op, NULL,
                                           &t->err) == 0 && same_sum (t, dtype, own, want, n);
    all_ok (t, pass, "reduce-scatter: %s of %zu %s", op_names[op], n,
            mg_dtype_name (dtype));
    free (send);
    free (want);
    free (recv);
}

static void all_gather (struct test *t, enum mg_dtype dtype, size_t n)
{
    size_t all = n * (size_t)t->size, elem = mg_dtype_size (dtype);
    void *send = make (dtype, 5, t->rank, n), *recv = calloc (all + 1, elem);
    void *want = calloc (all + 1, elem);
    bool pass;

    for (int r = 0; r < t->size; r++) {
        void *part = make (dtype, 5, r, n);

        memcpy ((char *)want + n * elem * (size_t)r, part, n * elem);
        free (part);
    }
    pass = staged_all_gather (t->comm, send, recv, n, dtype, t->a, &t->err) == 0
           && mg_stream_synchronize (t->a, &t->err) == 0
           && same (dtype, recv, want, all + 1);
    // in place
    memset (recv, 0, all * elem);
    memcpy ((char *)recv + n * elem * (size_t)t->rank, send, n * elem);
    pass = pass && staged_all_gather (t->comm, (char *)recv + n * elem * (size_t)t->rank,
                                       recv, n, dtype, NULL, &t->err) == 0
           && same (dtype, recv, want, all + 1);
    all_ok (t, pass, "all-gather of %zu %s", n, mg_dtype_name (dtype));
    free (send);
    free (recv);
    free (want);
}

static void all_to_all (struct test *t, enum mg_dtype dtype, size_t n)
{
    size_t all = n * (size_t)t->size, elem = mg_dtype_size (dtype);
    void *send = make (dtype, 6, t->rank, all), *recv = calloc (all + 1, elem);
    void *want = calloc (all + 1, elem);
    bool pass;

    for (int r = 0; r < t->size; r++)
        fill (dtype, (char *)want + n * elem * (size_t)r, 6, r, n * (size_t)t->rank, n);
    pass = staged_all_to_all (t->comm, send, recv, n, dtype, NULL, &t->err) == 0
           && same (dtype, recv, want, all + 1);
    all_ok (t, pass, "all-to-all of %zu %s", n, mg_dtype_name (dtype));
    free (send);
    free (recv);
    free (want);
}

/* How much rank 'from' sends to rank 'to': some nothing, some of the rest a lot. */
static size_t uneven (int from, int to)
{
    return (size_t)((from * 3 + to * 5) % 4) * (from == 1 ? 5003 : 7);
}

/* Buffers are laid out backwards with gaps, so that offsets matter. */
static void all_to_allv (struct test *t, enum mg_dtype dtype)
{
    enum { SLOT = 20000 };
    size_t n = (size_t)t->size, counts[4][64], elem = mg_dtype_size (dtype);
    void *send = make (dtype, 7, t->rank, n * SLOT), *recv = calloc (n * SLOT, elem);
    void *want = calloc (n * SLOT, elem);
    bool pass;

    for (int r = 0; r < t->size; r++) {
        counts[0][r] = uneven (t->rank, r);
        counts[1][r] = (n - 1 - (size_t)r) * SLOT + 3;
        counts[2][r] = uneven (r, t->rank);
        counts[3][r] = (size_t)r * SLOT + 5;
        fill (dtype, (char *)want + counts[3][r] * elem, 7, r, (n - 1 - (size_t)t->rank) * SLOT + 3,
              counts[2][r]);
    }
    pass = staged_all_to_allv (t->comm, send, counts[0], counts[1], recv, counts[2],
                                counts[3], dtype, t->b, &t->err) == 0;
    memset (counts, 0xff, sizeof (counts)); // they are read before the call returns
    pass = pass && mg_stream_synchronize (t->b, &t->err) == 0
           && same (dtype, recv, want, n * SLOT);
    all_ok (t, pass, "all-to-allv of uneven counts of %s, zeros among them",
            mg_dtype_name (dtype));
    memset (counts, 0, sizeof (counts));
    pass = staged_all_to_allv (t->comm, NULL, counts[0], counts[0], NULL, counts[0],
                                counts[0], dtype, NULL, &t->err) == 0;
    all_ok (t, pass, "all-to-allv of nothing");
    free (send);
    free (recv);
    free (want);
}

static void broadcast (struct test *t, enum mg_dtype dtype, size_t n, int roots)
{
    bool pass = true;

    for (int root = 0; root < roots; root++) {
        void *buf = make (dtype, 8, t->rank, n), *want = make (dtype, 8, root, n);
        void *guard = make (dtype, 8, t->rank, n);
        size_t bytes = n * mg_dtype_size (dtype);

        memcpy (guard, want, bytes);
        pass = pass
               && staged_broadcast (t->comm, buf, n, dtype, root, NULL, &t->err) == 0
               && same (dtype, buf, guard, n + 1);
        free (buf);
        free (want);
        free (guard);
    }
    all_ok (t, pass, "broadcast of %zu %s from %d ranks", n, mg_dtype_name (dtype),
            roots);
}

static void reductions (struct test *t)
{
    static const size_t counts[] = { 0, 1, 7, 2049, 10007 };

    for (int dtype = 0; dtype < MG_NUM_DTYPES; dtype++) {
        for (int op = MG_SUM; op <= MG_AVG; op++) {
            if (!value_has (dtype, op) || (t->apart && dtype == MG_FLOAT8_E4M3))
                continue;
            for (size_t c = 0; c < sizeof (counts) / sizeof (counts[0]); c++)
                all_reduce (t, dtype, op, counts[c]);
            reduce_scatter (t, dtype, op, 1003);
        }
        if (!t->apart || dtype != MG_FLOAT8_E4M3)
            reduce_scatter (t, dtype, MG_SUM, 0);
    }
}

/* Larger than the scratch buffer, and not divisible by anything. */
static void long_reductions (struct test *t)
{
    size_t part = 2000003 / (size_t)t->size;

    all_reduce (t, MG_FLOAT32, MG_SUM, 1100003);
    all_reduce (t, MG_BFLOAT16, MG_SUM, 300007);
    all_reduce (t, MG_FLOAT64, MG_SUM, 600011);
    all_reduce (t, MG_FLOAT16, MG_AVG, 300007);
    reduce_scatter (t, MG_FLOAT32, MG_SUM, part);
    reduce_scatter (t, MG_BFLOAT16, MG_AVG, part);
}

static void moves (struct test *t)
{
    size_t part = 2000003 / (size_t)t->size;

    for (int dtype = 0; dtype < MG_NUM_DTYPES; dtype++) {
        all_gather (t, dtype, 1003);
        all_to_all (t, dtype, 1003);
        all_to_allv (t, dtype);
        broadcast (t, dtype, 1003, t->size);
    }
    all_gather (t, MG_FLOAT32, part);
    all_to_all (t, MG_FLOAT32, part);
    broadcast (t, MG_FLOAT32, 1000003, 1);
    all_gather (t, MG_UINT8, 0);
    all_to_all (t, MG_UINT8, 0);
    broadcast (t, MG_UINT8, 0, 1);
}

/* On GPUs float8 is not reduced. */
static void no_float8_sums (struct test *t)
{
    uint8_t buf[4] = { 0 };
    bool pass = staged_all_reduce (t->comm, buf, 4, MG_FLOAT8_E4M3, MG_SUM, NULL, &t->err) < 0
                && errno == ENOTSUP && strstr (t->err.text, "all-reduce of 4 float8_e4m3 on world");

    all_ok (t, pass, "a sum of float8 is refused by name: %s", t->err.text);
    t->err.text[0] = '\0';
}

/* The same sum whole, and cut at odd places. */
static void cut_anywhere (struct test *t)
{
    size_t n = 300007, done = 0, step = 1;
    float *whole = make (MG_FLOAT32, 9, t->rank, n),
          *cut = make (MG_FLOAT32, 9, t->rank, n);
    bool pass = staged_all_reduce (t->comm, whole, n, MG_FLOAT32, MG_SUM, t->a,
                                    &t->err) == 0;

    for (; pass && done < n; done += step, step = step * 3 + 1) {
        if (step > n - done)
            step = n - done;
        pass = staged_all_reduce (t->comm, cut + done, step, MG_FLOAT32, MG_SUM, t->a,
                                   &t->err) == 0;
    }
    pass = pass && mg_stream_synchronize (t->a, &t->err) == 0
           && same (MG_FLOAT32, whole, cut, n);
    all_ok (t, pass, "a sum does not depend on how the buffer is cut into calls");
    free (whole);
    free (cut);
}

/* --- reductions of numbers that are flushed, rounded or cancel --- */

enum { EDGES = 1009 }; /* a prime */

/* Rank r's numbers: 0, denormal, about the least normal one, large, infinite (with one sign, so
 * that there is no NaN), and numbers that cancel.
 */
static void make_edges (enum mg_dtype dtype, int r, void *buf)
{
    static const double odd[] = { 0, -0.0, 0x1p-126, -0x1p-126, 0x1.8p-127, -0x1p-149, 0x1p-1022,
                                  -0x1.4p-1023, 0x1p-1074, 1e300, 3e38, 65504, INFINITY, 1, -1,
                                  0x1p-24, 0x1.8p-125, 0x1.000002p-126, -0x1.7p-126 };
    const size_t count = sizeof (odd) / sizeof (odd[0]);

    for (size_t i = 0; i < EDGES; i++)
        value_put (dtype, buf, i, odd[(i * 7 + (size_t)r * (i % 11 + 1)) % count]);
}

/* What rank 'rank' has after a reduce-scatter, or all have after an all-reduce (rank -1). */
static void *edges_reduced (const struct test *t, enum mg_dtype dtype, enum mg_reduce_op op,
                            int rank)
{
    size_t elem = mg_dtype_size (dtype), n = EDGES / (size_t)t->size;
    size_t first = rank < 0 ? 0 : n * (size_t)rank;
    char *all = calloc ((size_t)t->size * EDGES, elem), *want = calloc (EDGES, elem);
    const void *src[64];
    uint64_t mode;

    for (int r = 0; r < t->size; r++) {
        make_edges (dtype, r, all + (size_t)r * EDGES * elem);
        src[r] = all + ((size_t)r * EDGES + first) * elem;
    }
    mode = flush_begin ();
    reduce_ordered (dtype, op, want, src, t->size, rank < 0 ? EDGES : n);
    flush_end (mode);
    free (all);
    return want;
}

static void edges (struct test *t)
{
    static const enum mg_dtype types[] = { MG_FLOAT32, MG_FLOAT64, MG_BFLOAT16, MG_FLOAT16 };
    size_t n = EDGES / (size_t)t->size;

    for (size_t d = 0; d < sizeof (types) / sizeof (types[0]); d++) {
        for (int op = MG_SUM; op <= MG_AVG; op++) {
            void *buf = calloc (EDGES, 8), *part = calloc (EDGES, 8);
            void *want = edges_reduced (t, types[d], op, -1);
            void *want_part = edges_reduced (t, types[d], op, t->rank);
            bool pass;

            make_edges (types[d], t->rank, buf);
            pass = staged_reduce_scatter (t->comm, buf, part, n, types[d], op, NULL, &t->err) == 0
                   && same (types[d], part, want_part, n)
                   && staged_all_reduce (t->comm, buf, EDGES, types[d], op, NULL, &t->err) == 0
                   && same (types[d], buf, want, EDGES);
            all_ok (t, pass, "%s of %s that are 0, denormal, huge: the bits of the definition",
                    op_names[op], mg_dtype_name (types[d]));
            free (buf);
            free (part);
            free (want);
            free (want_part);
        }
    }
}

/* --- sums whose buffers stay on the device --- */

enum { SUMS = 12, SUM_PARTS = 4099 };

/* Buffers of a reduce-scatter and of an all-reduce, and what is wanted of both. */
struct resident {
    size_t send_bytes, recv_bytes;
    float *host, *want_part, *want;
    char *pinned, *send, *recv, *buf; /* send, recv and buf are on the device */
};

static int make_resident (struct test *t, struct resident *r)
{
    struct mg_device *device = job_device (t->job);
    size_t all = SUM_PARTS * (size_t)t->size;

    r->send_bytes = all * sizeof (float);
    r->recv_bytes = SUM_PARTS * sizeof (float);
    r->host = make (MG_FLOAT32, 12, t->rank, all);
    r->want = reduced (t, MG_FLOAT32, MG_SUM, 12, 0, all);
    r->want_part = r->want + SUM_PARTS * (size_t)t->rank;
    if (!(r->pinned = device_host_alloc (device, r->send_bytes, &t->err))
        || !(r->send = device_alloc (device, r->send_bytes, &t->err))
        || !(r->recv = device_alloc (device, r->recv_bytes, &t->err))
        || !(r->buf = device_alloc (device, r->send_bytes, &t->err)))
        return -1;
    memcpy (r->pinned, r->host, r->send_bytes);
    return device_upload (t->a, r->send, r->pinned, r->send_bytes, &t->err) < 0
           || device_upload (t->a, r->buf, r->pinned, r->send_bytes, &t->err) < 0
           || mg_stream_synchronize (t->a, &t->err) < 0 ? -1 : 0;
}

static void free_resident (struct test *t, struct resident *r)
{
    struct mg_device *device = job_device (t->job);

    device_free (device, r->send);
    device_free (device, r->recv);
    device_free (device, r->buf);
    device_host_free (device, r->pinned);
    free (r->host);
    free (r->want);
}

/* True if the results are right, on 't->a'. */
static bool check_resident (struct test *t, struct resident *r)
{
    return device_fetch (t->a, r->pinned, r->recv, r->recv_bytes, &t->err) == 0
           && same (MG_FLOAT32, r->pinned, r->want_part, SUM_PARTS)
           && device_fetch (t->a, r->pinned, r->buf, r->send_bytes, &t->err) == 0
           && same (MG_FLOAT32, r->pinned, r->want, r->send_bytes / sizeof (float));
}

static int enqueue_sums (struct test *t, struct resident *r, struct mg_stream *scatter,
                         struct mg_stream *reduce)
{
    return mg_comm_reduce_scatter (t->comm, r->send, r->recv, SUM_PARTS, MG_FLOAT32, MG_SUM,
                                   scatter, &t->err) < 0
           || mg_comm_all_reduce (t->comm, r->buf, SUM_PARTS * (size_t)t->size, MG_FLOAT32, MG_SUM,
                                  reduce, &t->err) < 0 ? -1 : 0;
}

/* The same where the scratch buffer has 16 MiB. */
static void very_long_reductions (struct test *t)
{
    all_reduce (t, MG_FLOAT32, MG_SUM, 4200007);
    reduce_scatter (t, MG_FLOAT64, MG_AVG, 2100011 / (size_t)t->size);
}

/* Calls on two streams, without any wait between them. */
static void sums_on_two_streams (struct test *t)
{
    struct resident r[SUMS] = { { 0 } };
    bool pass = true;

    for (int i = 0; pass && i < SUMS; i++)
        pass = make_resident (t, &r[i]) == 0;
    for (int i = 0; pass && i < SUMS; i++)
        pass = enqueue_sums (t, &r[i], i % 3 ? t->a : t->b, i % 2 ? t->a : t->b) == 0;
    pass = pass && mg_stream_synchronize (t->a, &t->err) == 0
           && mg_stream_synchronize (t->b, &t->err) == 0;
    for (int i = 0; pass && i < SUMS; i++)
        pass = check_resident (t, &r[i]);
    all_ok (t, pass, "%d sums on two streams at once", 2 * SUMS);
    for (int i = 0; i < SUMS; i++)
        free_resident (t, &r[i]);
}

/* A graph of sums, replayed with new numbers: no other memory, and a node for each call. */
static void sums_in_a_graph (struct test *t)
{
    struct mg_device *device = job_device (t->job);
    struct mg_stream *compute = mg_stream_create (device, MG_STREAM_COMPUTE, "compute", &t->err);
    struct device_graph *graph = NULL;
    struct resident r = { 0 };
    size_t before = 0, nodes = 0;
    bool pass = compute && make_resident (t, &r) == 0 && graph_begin (compute, &t->err) == 0;

    if (pass)
        pass = (graph = graph_finish (enqueue_sums (t, &r, compute, compute), &t->err)) != NULL;
    nodes = pass ? graph_nodes (graph) : 0;
    for (int i = 0; pass && i < 2; i++) {
        memcpy (r.pinned, r.host, r.send_bytes);
        pass = device_upload (compute, r.buf, r.pinned, r.send_bytes, &t->err) == 0;
        before = device_available (device);
        pass = pass && graph_replay (graph, &t->err) == 0
               && mg_stream_synchronize (compute, &t->err) == 0
               && (!t->apart || device_available (device) == before) && check_resident (t, &r);
    }
    all_ok (t, pass && nodes == 2, "a graph of sums, replayed twice: %zu nodes", nodes);
    graph_destroy (graph);
    free_resident (t, &r);
    mg_stream_destroy (compute);
}

/* Everybody sends to both neighbours and itself in one list. */
static void ring (struct test *t, size_t n)
{
    int left = (t->rank + t->size - 1) % t->size, right = (t->rank + 1) % t->size;
    float *send = make (MG_FLOAT32, 10, t->rank, n);
    float *from_left = calloc (n + 1, 4), *from_right = calloc (n + 1, 4);
    float *from_self = calloc (n + 1, 4);
    float *want_left = make (MG_FLOAT32, 10, left, n);
    float *want_right = make (MG_FLOAT32, 10, right, n);
    // a pair of ranks is each other's left and right: the order of kinds tells them apart
    struct mg_p2p list[] = {
        { MG_SEND, right, send, n, MG_FLOAT32 }, { MG_SEND, left, send, n, MG_FLOAT32 },
        { MG_RECV, left, from_left, n, MG_FLOAT32 },
        { MG_RECV, right, from_right, n, MG_FLOAT32 },
        { MG_SEND, t->rank, send, n, MG_FLOAT32 },
        { MG_RECV, t->rank, from_self, n, MG_FLOAT32 },
    };
    bool pass = staged_p2p (t->comm, list, 6, NULL, &t->err) == 0
                && same (MG_FLOAT32, from_left, want_left, n)
                && same (MG_FLOAT32, from_right, want_right, n)
                && same (MG_FLOAT32, from_self, send, n);

    all_ok (t, pass, "a ring in both directions and to itself, %zu float32", n);
    free (send);
    free (from_left);
    free (from_right);
    free (from_self);
    free (want_left);
    free (want_right);
}

/* One direction on each stream, enqueued in the opposite order on odd ranks, and long
 * enough that no message leaves before its receiver is there.
 */
static void both_ways_on_two_streams (struct test *t)
{
    enum { ROUNDS = 8, N = 50001 };
    int left = (t->rank + t->size - 1) % t->size, right = (t->rank + 1) % t->size;
    float *buf = calloc (N * 4, sizeof (*buf));
    struct mg_p2p sends[] = { { MG_SEND, right, buf, N, MG_FLOAT32 },
                              { MG_SEND, left, buf + N, N, MG_FLOAT32 } };
    struct mg_p2p recvs[] = { { MG_RECV, left, buf + 2 * N, N, MG_FLOAT32 },
                              { MG_RECV, right, buf + 3 * N, N, MG_FLOAT32 } };
    bool pass = true;

    for (int i = 0; pass && i < ROUNDS; i++) {
        for (int k = 0; k < N; k++) {
            buf[k] = (float)(t->rank * 100 + i);
            buf[N + k] = (float)(t->rank * 100 + 50 + i);
        }
        // all sends of a stream come before its receives: they must not hold up each
        // other
        if (t->rank % 2)
            pass = staged_p2p (t->comm, recvs, 2, t->b, &t->err) == 0
                   && staged_p2p (t->comm, sends, 2, t->a, &t->err) == 0;
        else
            pass = staged_p2p (t->comm, sends, 2, t->a, &t->err) == 0
                   && staged_p2p (t->comm, recvs, 2, t->b, &t->err) == 0;
        pass = pass && mg_stream_synchronize (t->a, &t->err) == 0
               && mg_stream_synchronize (t->b, &t->err) == 0;
        for (int k = 0; pass && k < N; k++)
            pass = buf[2 * N + k] == (float)(left * 100 + i)
                   && buf[3 * N + k] == (float)(right * 100 + 50 + i);
    }
    all_ok (t, pass, "both directions on two streams, %d times", ROUNDS);
    free (buf);
}

/* A receive that is only answered after a collective on another stream. */
static void streams_overlap (struct test *t)
{
    int left = (t->rank + t->size - 1) % t->size, right = (t->rank + 1) % t->size;
    int32_t out = t->rank, in = -1, sum = 1;
    struct mg_p2p recv = { MG_RECV, left, &in, 1, MG_INT32 };
    struct mg_p2p send = { MG_SEND, right, &out, 1, MG_INT32 };
    bool pass
        = staged_p2p (t->comm, &recv, 1, t->a, &t->err) == 0
          && staged_all_reduce (t->comm, &sum, 1, MG_INT32, MG_SUM, t->b, &t->err) == 0
          && mg_stream_synchronize (t->b, &t->err) == 0 && sum == t->size && in == -1
          && !stream_idle (t->a);

    all_ok (t, pass, "a collective passes a receive that waits on another stream");
    pass = staged_p2p (t->comm, &send, 1, t->b, &t->err) == 0
           && mg_stream_synchronize (t->a, &t->err) == 0 && in == left
           && mg_stream_synchronize (t->b, &t->err) == 0;
    all_ok (t, pass, "which then gets what it waited for");
}

/* Many calls in a row without waiting, on two streams of one communicator. */
static void deep_queue (struct test *t)
{
    enum { DEPTH = 100 };
    int32_t x[DEPTH], y[DEPTH], got[DEPTH];
    int left = (t->rank + t->size - 1) % t->size, right = (t->rank + 1) % t->size;
    bool pass = true;

    for (int i = 0; pass && i < DEPTH; i++) {
        struct mg_p2p list[] = { { MG_SEND, right, &y[i], 1, MG_INT32 },
                                 { MG_RECV, left, &got[i], 1, MG_INT32 } };

        x[i] = i;
        y[i] = t->rank * 1000 + i;
        pass = staged_all_reduce (t->comm, &x[i], 1, MG_INT32, MG_SUM,
                                   i % 3 ? t->a : t->b, &t->err)
                   == 0
               && staged_p2p (t->comm, list, 2, i % 2 ? t->a : t->b, &t->err) == 0;
    }
    pass = pass && mg_stream_synchronize (t->a, &t->err) == 0
           && mg_stream_synchronize (t->b, &t->err) == 0;
    for (int i = 0; pass && i < DEPTH; i++)
        pass = x[i] == i * t->size && got[i] == left * 1000 + i;
    all_ok (t, pass, "%d calls of each kind without waiting", DEPTH);
}

static void events_order_streams (struct test *t)
{
    size_t n = 100003;
    float *x = make (MG_FLOAT32, 11, t->rank, n);
    float *want = reduced (t, MG_FLOAT32, MG_SUM, 11, 0, n);
    float *all = calloc (n * (size_t)t->size, sizeof (*all));
    struct mg_event *event = mg_event_create (job_device (t->job), &t->err);
    bool pass
        = staged_all_reduce (t->comm, x, n, MG_FLOAT32, MG_SUM, t->a, &t->err) == 0;

    mg_event_record (event, t->a);
    pass = pass && mg_stream_wait_event (t->b, event, &t->err) == 0
           && staged_all_gather (t->comm, x, all, n, MG_FLOAT32, t->b, &t->err) == 0
           && mg_stream_synchronize (t->b, &t->err) == 0;
    for (int r = 0; pass && r < t->size; r++)
        pass = same_sum (t, MG_FLOAT32, all + n * (size_t)r, want, n);
    all_ok (t, pass, "an event orders two streams");
    mg_event_destroy (event);
    free (x);
    free (want);
    free (all);
}

/* Longer than one message of the backend, and not a multiple of it. */
static void long_messages (struct test *t)
{
    size_t n = ((size_t)64 << 20) + 3;
    bool sends = t->rank == 0, takes = t->rank == t->size - 1;
    unsigned char *out = sends ? malloc (n) : NULL, *in = takes ? calloc (n, 1) : NULL;
    struct mg_p2p list[2];
    int len = 0;
    bool pass;

    for (size_t i = 0; sends && i < n; i++)
        out[i] = (unsigned char)(i * 7 + (i >> 20));
    if (sends)
        list[len++] = (struct mg_p2p){ MG_SEND, t->size - 1, out, n, MG_UINT8 };
    if (takes)
        list[len++] = (struct mg_p2p){ MG_RECV, 0, in, n, MG_UINT8 };
    pass = staged_p2p (t->comm, list, len, NULL, &t->err) == 0;
    for (size_t i = 0; pass && takes && i < n; i++)
        pass = in[i] == (unsigned char)(i * 7 + (i >> 20));
    all_ok (t, pass, "a transfer of %zu bytes", n);
    free (out);
    free (in);
}

static void empty_transfers (struct test *t)
{
    int right = (t->rank + 1) % t->size, left = (t->rank + t->size - 1) % t->size;
    int32_t out = 5, in = 0;
    struct mg_p2p list[] = {
        { MG_SEND, right, NULL, 0, MG_INT32 }, { MG_SEND, right, &out, 1, MG_INT32 },
        { MG_RECV, left, NULL, 0, MG_INT32 },  { MG_RECV, left, &in, 1, MG_INT32 },
    };
    bool pass = staged_p2p (t->comm, list, 4, NULL, &t->err) == 0 && in == 5;

    all_ok (t, pass, "an empty transfer meets an empty one");
}

static void names_and_statistics (struct test *t)
{
    struct mg_comm *dp = job_comm (t->job, GROUP_DP), *tp = job_comm (t->job, GROUP_TP);
    struct mg_comm_stats before, after, other;
    float x[3] = { 0 };
    bool pass;

    mg_comm_get_stats (dp, &before);
    mg_comm_get_stats (t->comm, &other);
    pass = strcmp (mg_comm_name (dp), "dp") == 0 && mg_comm_size (dp) == t->size
           && strcmp (mg_comm_name (tp), "tp") == 0 && mg_comm_size (tp) == 1
           && staged_all_reduce (dp, x, 3, MG_FLOAT32, MG_SUM, NULL, &t->err) == 0;
    mg_comm_get_stats (dp, &after);
    pass = pass && after.calls[MG_CALL_ALL_REDUCE] == before.calls[MG_CALL_ALL_REDUCE] + 1
           && after.bytes[MG_CALL_ALL_REDUCE] == before.bytes[MG_CALL_ALL_REDUCE] + 12;
    mg_comm_get_stats (t->comm, &after);
    pass = pass && memcmp (&after, &other, sizeof (after)) == 0;
    all_ok (t, pass,
            "communicators that share their members have names and counts apart");
}

static void graphs (struct test *t)
{
    struct mg_device *device = job_device (t->job);

    if (!device->ops->graph)
        return;
    all_ok (t, captured_replays (device, t->comm, &t->err),
            "a graph repeats a sum and transfers on streams of their own");
    all_ok (t, captured_refusals (device, t->comm, &t->err),
            "what a graph cannot have is refused, and calls run as before");
}

/* Transfers, and the order of calls. */
static void orders (struct test *t)
{
    ring (t, 1);
    ring (t, 100003);
    if (!t->apart)
        both_ways_on_two_streams (t);
    if (t->size > 1 && !t->apart)
        streams_overlap (t);
    deep_queue (t);
    events_order_streams (t);
    long_messages (t);
    empty_transfers (t);
    names_and_statistics (t);
}

int main (int argc, char **argv)
{
    bool ordered = argc > 1 && strcmp (argv[1], "ordered") == 0;
    struct job_config config = { .timeout = 300, .threads = 1, .fingerprint = 1,
                                 .ordered_sums = ordered };
    struct test t = { .err = { "" } };

    if (!(config.bootstrap = t.bootstrap = job_meet (NULL, NULL, 300, &t.err)))
        bail_out ("%s", t.err.text);
    geometry_init (&config.geometry);
    if (!(t.job = job_create (&config, &t.err))) {
        fprintf (stderr, "%s\n", t.err.text);
        bootstrap_abort (t.bootstrap, 1);
    }
    t.rank = job_rank (t.job);
    t.size = job_world (t.job);
    t.comm = job_comm (t.job, GROUP_WORLD);
    t.a = mg_stream_create (job_device (t.job), MG_STREAM_COMM, "a", &t.err);
    t.b = mg_stream_create (job_device (t.job), MG_STREAM_COMM, "b", &t.err);
    all_ok (&t, t.a && t.b && mg_comm_rank (t.comm) == t.rank, "%d ranks", t.size);
    t.apart = t.size > 1 && device_is_apart (job_device (t.job));
    t.own_order = t.apart && !ordered;
    staged_begin (job_device (t.job), t.a);
    reductions (&t);
    if (t.apart)
        no_float8_sums (&t);
    if (!t.own_order) {
        cut_anywhere (&t);
        if (t.size > 1) // the numbers of one rank are copied, denormal ones as well
            edges (&t);
    }
    if (ordered) {
        very_long_reductions (&t);
        sums_on_two_streams (&t);
        sums_in_a_graph (&t);
    } else {
        long_reductions (&t);
        moves (&t);
        orders (&t);
        graphs (&t);
    }
    all_ok (&t, mg_comm_barrier (t.comm, t.a, &t.err) == 0
            && mg_stream_synchronize (t.a, &t.err) == 0, "barrier");
    mg_stream_destroy (t.a);
    mg_stream_destroy (t.b);
    job_destroy (t.job);
    return t.rank == 0 ? done_testing () : 0;
}
