/* nccl.cpp - the double of NCCL: ranks of one machine exchange through memory that they share
 *
 * Each pair of ranks has a ring of bytes (nccl_link.h).  A call is one operation on its stream, and
 * a thread of its own runs it.  Calls of a communicator run in the order in which they were
 * enqueued.  The launch of a graph enqueues the calls of the graph.  A message begins with the call
 * of its sender.  If the receiver makes another call, the communicator fails; the real library
 * would hang.  Each slice of a sum begins at another rank, so sums are not in rank order.  A call
 * holds multiprocessors until it ends: 16, or as many as the communicator's configuration or
 * NCCL_MAX_CTAS says.
 */

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include <nccl.h>

#include "tests/cuda/nccl_link.h"
#include "tests/cuda/runtime.h"

enum { SLICE = 256, LOOK_MS = 10, CTAS = 16 };

/* What all ranks of a call must agree on.  'bytes' is the size of this message. */
struct head {
    int kind, type, op, root;
    uint64_t count, bytes;
};
struct message {
    int peer;
    struct head head;
    char *data;
    size_t at; /* bytes moved, the head among them */
    uint64_t end;
    struct head got;
};

struct ncclComm {
    int rank, n, device;
    bool blocking, finalized;
    struct link_memory *shm;
    std::atomic<int> state, aborted;
    struct runtime_chain calls; /* in the order of enqueuing */
    std::atomic<int64_t> looked; /* when it last looked for ranks that are gone, in ms */
    void *memory;              /* device memory, of which the real library takes some, too */
    bool connected[7];         /* a call of this kind was made, and took more memory */
};

enum { COMM_BYTES = 6 << 20, KIND_BYTES = 1 << 20 };

enum { ALLREDUCE, BROADCAST, REDUCE, ALLGATHER, REDUCESCATTER, ALLTOALL, POINT };
struct call {
    ncclComm *comm;
    cudaStream_t stream;
    struct head head;
    bool is_send;
    int peer;
    const void *in;
    void *out;
};
static thread_local int depth;
static thread_local ncclResult_t group_error;
static thread_local std::vector<struct call> pending;

static size_t type_size (int type)
{
    static const size_t sizes[] = { 1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1 };

    return sizes[type];
}

/* --- errors, and calls after them --- */

static void nap_us (int us)
{
    std::this_thread::sleep_for (std::chrono::microseconds (us));
}

/* MG_NCCL_HURT, "SIGNAL NUMBER FUNCTION": this process sends itself a signal in that call, and says
 * when.
 */
static void hurt (const char *function)
{
    static const char *const text = getenv ("MG_NCCL_HURT");
    static std::atomic<int> calls;
    char name[64];
    int number, call;

    if (!text)
        return;
    if (sscanf (text, "%d %d %63s", &number, &call, name) != 3) {
        fprintf (stderr, "nccl double: MG_NCCL_HURT=%s: want SIGNAL NUMBER FUNCTION\n", text);
        exit (2);
    }
    if (strcmp (name, function) || ++calls != call)
        return;
    using namespace std::chrono;
    fprintf (stderr, "nccl double: signal %d in %s at %lld ms\n", number, function,
             (long long)duration_cast<milliseconds> (system_clock::now ().time_since_epoch ())
                 .count ());
    raise (number);
}

/* MG_NCCL_FAIL, "NUMBER FUNCTION": that call, of those that go to a stream, is refused. */
static bool fails (const char *function)
{
    static const char *const text = getenv ("MG_NCCL_FAIL");
    static std::atomic<int> calls;
    char name[64];
    int call;

    if (!text)
        return false;
    if (sscanf (text, "%d %63s", &call, name) != 2) {
        fprintf (stderr, "nccl double: MG_NCCL_FAIL=%s: want NUMBER FUNCTION\n", text);
        exit (2);
    }
    return strcmp (name, function) == 0 && ++calls == call;
}

/* Each function of the API calls this first.  'ends': the function ends a communicator. */
static void enter (const char *function, bool ends = false)
{
    hurt (function);
    runtime_note_call (function, ends);
}

/* Each function returns through this one, which notes failures that the program is told of. */
static ncclResult_t leave (ncclResult_t e)
{
    if (e != ncclSuccess && e != ncclInProgress)
        runtime_note_failure ();
    return e;
}

static bool comm_fail (ncclComm *c, ncclResult_t why, const char *text)
{
    int now = c->state;

    while (now == ncclSuccess || now == ncclInProgress)
        if (c->state.compare_exchange_strong (now, why)) {
            fprintf (stderr, "nccl double: rank %d: %s\n", c->rank, text);
            break;
        }
    return false;
}

static bool has_failed (const ncclComm *c)
{
    return c->state != ncclSuccess && c->state != ncclInProgress;
}

/* False if the communicator has failed, or a rank of it is gone. */
static bool alive (ncclComm *c)
{
    using namespace std::chrono;
    int64_t now = duration_cast<milliseconds> (steady_clock::now ().time_since_epoch ()).count ();

    if (c->aborted || has_failed (c))
        return false;
    if (c->shm->failed)
        return comm_fail (c, ncclRemoteError, "another rank failed");
    if (now < c->looked + LOOK_MS)
        return true;
    c->looked = now;
    if (link_find_gone (c->shm) >= 0)
        return comm_fail (c, ncclRemoteError, "a rank of the communicator is gone");
    return true;
}

/* --- messages --- */

/* Move what can be moved of one message.  True if some byte went. */
static bool move (struct link_ring *ring, struct message *m, bool is_send)
{
    size_t total = sizeof m->head + m->head.bytes;
    bool moved = false;

    while (m->at < total) {
        bool in_head = m->at < sizeof m->head;
        uint64_t h = ring->head, t = ring->tail, pos = (is_send ? h : t) % LINK_RING;
        size_t room = is_send ? LINK_RING - (h - t) : h - t;
        char *p = in_head ? (char *)(is_send ? &m->head : &m->got) + m->at
                          : m->data + (m->at - sizeof m->head);
        size_t k = std::min ({ room, LINK_RING - pos, (in_head ? sizeof m->head : total) - m->at });

        if (k == 0)
            break;
        if (is_send)
            memcpy (ring->data + pos, p, k), ring->head = m->end = h + k;
        else
            memcpy (p, ring->data + pos, k), ring->tail = t + k;
        m->at += k;
        moved = true;
        if (!is_send && m->at == sizeof m->head && memcmp (&m->got, &m->head, sizeof m->head))
            break;
    }
    return moved;
}

/* Move all messages at the same time.  The messages of one pair of ranks go one after the other. */
static bool exchange (ncclComm *c, std::vector<message> &out, std::vector<message> &in)
{
    for (unsigned turn = 0;; turn++) {
        bool busy = false, moved = false;

        for (int way = 0; way < 2; way++) {
            std::vector<bool> held (c->n);
            for (auto &m : way ? in : out) {
                struct link_ring *ring = &c->shm->rings[way ? m.peer * c->n + c->rank
                                                       : c->rank * c->n + m.peer];
                if (held[m.peer])
                    continue;
                moved |= move (ring, &m, !way);
                if (way && m.at >= sizeof m.head && memcmp (&m.got, &m.head, sizeof m.head)) {
                    c->shm->failed = 1;
                    return comm_fail (c, ncclInvalidUsage, "ranks made calls that differ");
                }
                held[m.peer] = m.at < sizeof m.head + m.head.bytes;
                busy |= held[m.peer] || (!way && ring->tail < m.end);
            }
        }
        if (!busy)
            return true;
        if (!moved && turn % 64 == 0 && !alive (c))
            return false;
        if (!moved)
            nap_us (20);
    }
}

template<typename T, typename A> static void reduce_as (char *out, const char *in, size_t count,
                                                        size_t from, int n, int op)
{
    for (size_t i = 0; i < count; i++) {
        int first = (int)((from + i) / SLICE + 1) % n;
        A sum = A ();

        for (int k = 0; k < n; k++) {
            A x = (A)((const T *)in)[(size_t)((first + k) % n) * count + i];
            if (k == 0)
                sum = x;
            else if (op == ncclProd)
                sum = (A)(T)(A)(sum * x);
            else if (op == ncclMax)
                sum = sum < x ? x : sum;
            else if (op == ncclMin)
                sum = x < sum ? x : sum;
            else
                sum = (A)(T)(A)(sum + x);
        }
        ((T *)out)[i] = (T)(op == ncclAvg ? (A)(sum / (A)n) : sum);
    }
}

/* 'in' has a row of 'count' elements for each rank.  'from' is the number of the first element. */
static void reduce (char *out, const char *in, size_t count, size_t from, int n, int type, int op)
{
    switch (type) {
    case ncclInt8: return reduce_as<int8_t, int64_t> (out, in, count, from, n, op);
    case ncclUint8: return reduce_as<uint8_t, uint64_t> (out, in, count, from, n, op);
    case ncclInt32: return reduce_as<int32_t, int64_t> (out, in, count, from, n, op);
    case ncclUint32: return reduce_as<uint32_t, uint64_t> (out, in, count, from, n, op);
    case ncclInt64: return reduce_as<int64_t, int64_t> (out, in, count, from, n, op);
    case ncclUint64: return reduce_as<uint64_t, uint64_t> (out, in, count, from, n, op);
    case ncclFloat16: return reduce_as<__half, float> (out, in, count, from, n, op);
    case ncclBfloat16: return reduce_as<__nv_bfloat16, float> (out, in, count, from, n, op);
    case ncclFloat32: return reduce_as<float, float> (out, in, count, from, n, op);
    case ncclFloat64: return reduce_as<double, double> (out, in, count, from, n, op);
    case ncclFloat8e4m3: return reduce_as<__nv_fp8_e4m3, float> (out, in, count, from, n, op);
    case ncclFloat8e5m2: return reduce_as<__nv_fp8_e5m2, float> (out, in, count, from, n, op);
    }
}

static void run_calls (ncclComm *c, const std::vector<struct call> &calls)
{
    std::vector<std::vector<char>> rows (calls.size ());
    std::vector<message> out, in;

    for (size_t k = 0; k < calls.size (); k++) {
        const struct call &a = calls[k];
        size_t bytes = a.head.count * type_size (a.head.type);
        int kind = a.head.kind;
        auto add = [&] (std::vector<message> &list, int peer, char *data, size_t size) {
            struct message m = {};
            m.peer = peer;
            m.head = a.head;
            m.head.bytes = size;
            m.data = data;
            list.push_back (m);
        };

        if (kind == POINT) {
            add (a.is_send ? out : in, a.peer, a.is_send ? (char *)a.in : (char *)a.out, bytes);
            continue;
        }
        /* a call in place may not overwrite what it has still to send: what arrives lies apart */
        rows[k].resize (bytes * c->n);
        for (int r = 0; r < c->n; r++) {
            bool each = kind == REDUCESCATTER || kind == ALLTOALL;
            bool sends = (kind != REDUCE || r == a.head.root)
                         && (kind != BROADCAST || c->rank == a.head.root);
            bool gets = (kind != REDUCE || c->rank == a.head.root)
                        && (kind != BROADCAST || r == a.head.root);
            add (out, r, (char *)a.in + (each ? r * bytes : 0), sends ? bytes : 0);
            add (in, r, rows[k].data () + r * bytes, gets ? bytes : 0);
        }
    }
    if (!exchange (c, out, in))
        return;
    for (size_t k = 0; k < calls.size (); k++) {
        const struct call &a = calls[k];
        size_t bytes = a.head.count * type_size (a.head.type);
        int kind = a.head.kind;

        if (kind == ALLREDUCE || kind == REDUCESCATTER
            || (kind == REDUCE && c->rank == a.head.root))
            reduce ((char *)a.out, rows[k].data (), a.head.count,
                    kind == REDUCESCATTER ? c->rank * a.head.count : 0, c->n, a.head.type,
                    a.head.op);
        else if (kind == BROADCAST && bytes)
            memcpy (a.out, rows[k].data () + a.head.root * bytes, bytes);
        else if ((kind == ALLGATHER || kind == ALLTOALL) && bytes)
            memcpy (a.out, rows[k].data (), rows[k].size ());
    }
}

/* The error of a group of calls: streams of which some capture and others do not, or a capture that
 * is invalid.
 */
static ncclResult_t check_captures (const std::vector<struct call> &calls)
{
    int captures = 0;

    for (auto &a : calls) {
        CUstream_st *stream = runtime_stream (a.stream);

        if (!stream || stream->device != a.comm->device)
            return ncclInvalidArgument;
        if (runtime_check_issue (stream) != cudaSuccess)
            return ncclUnhandledCudaError;
        captures += runtime_captures (stream);
    }
    return captures == 0 || captures == (int)calls.size () ? ncclSuccess : ncclInvalidUsage;
}

/* Issue the calls of a group: one operation for each communicator.  In a capture it is a node, and
 * each launch of the graph makes the calls.
 */
static ncclResult_t flush ()
{
    std::vector<struct call> all;

    all.swap (pending);
    ncclResult_t e = check_captures (all);
    if (e != ncclSuccess)
        return e;
    while (!all.empty ()) {
        ncclComm *c = all[0].comm;
        std::vector<struct call> mine, rest;
        for (auto &a : all)
            (a.comm == c ? mine : rest).push_back (a);
        for (auto &a : mine)
            if (a.stream != mine[0].stream)
                return ncclInvalidUsage; /* the double has one stream a communicator and group */
        runtime_submit (
            runtime_stream (mine[0].stream),
            [c, mine] {
                runtime_allow (c->device);
                run_calls (c, mine);
                /* after a failure later calls wait until the communicator is aborted */
                while (has_failed (c) && !c->aborted)
                    nap_us (1000);
                return cudaSuccess;
            },
            false, nullptr, &c->calls);
        all.swap (rest);
    }
    return ncclSuccess;
}

static ncclResult_t enqueue (const char *function, struct call a)
{
    enter (function);
    ncclResult_t e = ncclSuccess;
    ncclComm *c = a.comm;
    int kind = a.head.kind;

    if (!c || a.head.type < 0 || a.head.type >= ncclNumTypes || a.head.op < 0
        || a.head.op >= ncclNumOps || a.head.root < 0 || a.head.root >= c->n || a.peer < 0
        || a.peer >= c->n) {
        e = ncclInvalidArgument;
    } else if (fails (function)) {
        e = ncclInternalError;
    } else if (c->finalized) {
        e = ncclInvalidUsage;
    } else if (c->state != ncclSuccess) {
        e = c->state == ncclInProgress ? ncclInvalidArgument : (ncclResult_t)(int)c->state;
    } else if (a.head.count) {
        size_t bytes = a.head.count * type_size (a.head.type);
        bool each = kind == REDUCESCATTER || kind == ALLTOALL;
        bool every = kind == ALLGATHER || kind == ALLTOALL;
        bool in = kind == POINT ? a.is_send : kind != BROADCAST || c->rank == a.head.root;
        bool out = kind == POINT ? !a.is_send : kind != REDUCE || c->rank == a.head.root;

        if ((in && !runtime_is_device (a.in, each ? bytes * c->n : bytes))
            || (out && !runtime_is_device (a.out, every ? bytes * c->n : bytes)))
            e = ncclInvalidArgument;
    }
    if (e != ncclSuccess) {
        if (depth && group_error == ncclSuccess)
            group_error = e;
        return leave (e);
    }
    if (!c->connected[kind]) {
        void *more;
        if (cudaMalloc (&more, KIND_BYTES) != cudaSuccess)
            return leave (ncclUnhandledCudaError);
        c->connected[kind] = true;
    }
    pending.push_back (a);
    return depth ? ncclSuccess : leave (flush ());
}

/* --- beginnings and ends --- */

static void join (ncclComm *c, ncclUniqueId id)
{
    static const char *const text[] = {
        [ncclSuccess] = "", [ncclUnhandledCudaError] = "",
        [ncclSystemError] = "the process that made the id is gone",
        [ncclInternalError] = "", [ncclInvalidArgument] = "",
        [ncclInvalidUsage] = "the rank is there already, or another one wants another number",
        [ncclRemoteError] = "a rank of the communicator is gone",
    };
    ncclResult_t e = link_join (&id, c->rank, c->n, &c->aborted, &c->shm);
    int now = ncclInProgress;

    if (e != ncclSuccess)
        comm_fail (c, e, text[e]);
    else if (!c->aborted)
        c->state.compare_exchange_strong (now, ncclSuccess);
}

/* Multiprocessors that a call holds.  The environment is stronger than the configuration. */
static int choose_ctas (const ncclConfig_t *config)
{
    const char *most = getenv ("NCCL_MAX_CTAS");
    int ctas = CTAS;

    if (config && config->maxCTAs != NCCL_CONFIG_UNDEF_INT)
        ctas = config->maxCTAs;
    else if (config && config->minCTAs != NCCL_CONFIG_UNDEF_INT)
        ctas = std::max (ctas, config->minCTAs);
    return most ? atoi (most) : ctas;
}

/* Wait for the operations of this rank, then for those of all others. */
static void finalize (ncclComm *c)
{
    int now = ncclInProgress;
    bool all;

    while (!runtime_done (runtime_chain_last (&c->calls))) {
        if (!alive (c))
            return;
        nap_us (200);
    }
    c->shm->finished[c->rank] = 1;
    do {
        all = true;
        for (int r = 0; r < c->n; r++)
            all = all && c->shm->finished[r];
        if (!all && !alive (c))
            return;
        if (!all)
            nap_us (200);
    } while (!all);
    c->state.compare_exchange_strong (now, ncclSuccess);
}

static ncclResult_t begin_finalize (ncclComm *c)
{
    int now = ncclSuccess;

    if (c->finalized)
        return ncclInvalidUsage;
    if (!c->state.compare_exchange_strong (now, ncclInProgress))
        return now == ncclInProgress ? ncclInvalidArgument : (ncclResult_t)now;
    c->finalized = true;
    if (!c->blocking) {
        std::thread (finalize, c).detach ();
        return ncclInProgress;
    }
    finalize (c);
    return (ncclResult_t)(int)c->state;
}

extern "C" {

ncclResult_t ncclGetVersion (int *version)
{
    enter (__func__);
    if (!version)
        return leave (ncclInvalidArgument);
    const char *other = getenv ("MG_NCCL_VERSION");
    *version = other ? atoi (other) : NCCL_VERSION_CODE;
    return ncclSuccess;
}

ncclResult_t ncclGetUniqueId (ncclUniqueId *id)
{
    enter (__func__);
    return leave (id ? link_offer (id) : ncclInvalidArgument);
}

const char *ncclGetErrorString (ncclResult_t e)
{
    static const char *const text[] = {
        "no error", "unhandled cuda error", "unhandled system error", "internal error",
        "invalid argument", "invalid usage", "remote process exited or there was a network error",
        "NCCL operation in progress"
    };

    return (unsigned)e < ncclNumResults ? text[e] : "unknown result code";
}

const char *ncclGetLastError (ncclComm_t c)
{
    return c && c->state != ncclInProgress ? ncclGetErrorString ((ncclResult_t)(int)c->state) : "";
}

/* Check the ranges as the real library does.  MG_NCCL_LOG=FILE: append a line of what is set. */
static ncclResult_t check_config (const ncclConfig_t *config)
{
    const int unset = NCCL_CONFIG_UNDEF_INT;
    const int cga = config->cgaClusterSize, least = config->minCTAs, most = config->maxCTAs;
    const char *path = getenv ("MG_NCCL_LOG");

    if (config->magic != 0xcafebeef || (cga != unset && (cga < 0 || cga > 8))
        || (least != unset && least < 1) || (most != unset && most < 1)
        || (least != unset && most != unset && least > most))
        return ncclInvalidArgument;
    if (FILE *log = path ? fopen (path, "a") : NULL) {
        fprintf (log, "%s: cga %d ctas %d-%d net %s\n", config->commName ? config->commName : "-",
                 cga == unset ? -1 : cga, least == unset ? -1 : least, most == unset ? -1 : most,
                 config->netName ? config->netName : "-");
        fclose (log);
    }
    return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig (ncclComm_t *out, int n, ncclUniqueId id, int rank,
                                     ncclConfig_t *config)
{
    enter ("ncclCommInitRankConfig");
    if (!out || n < 1 || n > LINK_MAX_RANKS || rank < 0 || rank >= n
        || (config && check_config (config) != ncclSuccess))
        return leave (ncclInvalidArgument);
    if (n > 1 && getenv ("MG_NCCL_REFUSE"))
        return leave (ncclInvalidUsage);
    ncclComm *c = new ncclComm ();
    c->rank = rank;
    c->n = n;
    c->device = runtime_device ();
    c->calls.holds = choose_ctas (config);
    c->blocking = !config || config->blocking != 0;
    c->state = ncclInProgress;
    *out = c;
    if (cudaMalloc (&c->memory, COMM_BYTES) != cudaSuccess)
        return leave (ncclUnhandledCudaError);
    if (!c->blocking) {
        std::thread (join, c, id).detach ();
        return ncclInProgress;
    }
    join (c, id);
    return leave ((ncclResult_t)(int)c->state);
}

ncclResult_t ncclCommInitRank (ncclComm_t *out, int n, ncclUniqueId id, int rank)
{
    return ncclCommInitRankConfig (out, n, id, rank, NULL);
}

ncclResult_t ncclCommGetAsyncError (ncclComm_t c, ncclResult_t *e)
{
    enter (__func__);
    if (!c || !e)
        return leave (ncclInvalidArgument);
    if (c->state == ncclSuccess && !c->finalized)
        alive (c);
    *e = (ncclResult_t)(int)c->state;
    leave (*e);
    return ncclSuccess;
}

ncclResult_t ncclCommFinalize (ncclComm_t c)
{
    enter (__func__, true);
    return leave (c ? begin_finalize (c) : ncclInvalidArgument);
}

/* The communicator is not freed: one of its threads may still read it. */
ncclResult_t ncclCommDestroy (ncclComm_t c)
{
    enter (__func__, true);
    if (!c)
        return leave (ncclInvalidArgument);
    if (!c->finalized && c->state == ncclSuccess)
        begin_finalize (c);
    while (c->finalized && c->state == ncclInProgress)
        nap_us (200);
    return leave ((ncclResult_t)(int)c->state);
}

/* The operations end without a result and wait for no other rank. */
ncclResult_t ncclCommAbort (ncclComm_t c)
{
    enter (__func__, true);
    if (!c)
        return leave (ncclInvalidArgument);
    c->aborted = 1;
    runtime_wait (runtime_chain_last (&c->calls));
    if (c->shm)
        c->shm->finished[c->rank] = 1;
    return ncclSuccess;
}

#define NUMBER(function, field)                                                                    \
    ncclResult_t function (const ncclComm_t c, int *out)                                           \
    {                                                                                              \
        enter (#function);                                                                         \
        if (!c || !out)                                                                            \
            return leave (ncclInvalidArgument);                                                    \
        *out = c->field;                                                                           \
        return ncclSuccess;                                                                        \
    }
NUMBER (ncclCommCount, n)
NUMBER (ncclCommCuDevice, device)
NUMBER (ncclCommUserRank, rank)

ncclResult_t ncclGroupStart ()
{
    enter (__func__);
    depth++;
    return ncclSuccess;
}

ncclResult_t ncclGroupEnd ()
{
    enter (__func__);
    if (depth == 0)
        return leave (ncclInvalidUsage);
    if (--depth)
        return ncclSuccess;
    ncclResult_t e = group_error;
    group_error = ncclSuccess;
    if (e == ncclSuccess)
        return leave (flush ());
    pending.clear ();
    return leave (e);
}

#define HEAD(kind, op, root) { kind, type, op, root, count, 0 }

ncclResult_t ncclAllReduce (const void *in, void *out, size_t count, ncclDataType_t type,
                            ncclRedOp_t op, ncclComm_t c, cudaStream_t s)
{
    return enqueue (__func__, { c, s, HEAD (ALLREDUCE, op, 0), false, 0, in, out });
}

ncclResult_t ncclReduce (const void *in, void *out, size_t count, ncclDataType_t type,
                         ncclRedOp_t op, int root, ncclComm_t c, cudaStream_t s)
{
    return enqueue (__func__, { c, s, HEAD (REDUCE, op, root), false, 0, in, out });
}

ncclResult_t ncclBroadcast (const void *in, void *out, size_t count, ncclDataType_t type, int root,
                            ncclComm_t c, cudaStream_t s)
{
    return enqueue (__func__, { c, s, HEAD (BROADCAST, 0, root), false, 0, in, out });
}

ncclResult_t ncclReduceScatter (const void *in, void *out, size_t count, ncclDataType_t type,
                                ncclRedOp_t op, ncclComm_t c, cudaStream_t s)
{
    return enqueue (__func__, { c, s, HEAD (REDUCESCATTER, op, 0), false, 0, in, out });
}

ncclResult_t ncclAllGather (const void *in, void *out, size_t count, ncclDataType_t type,
                            ncclComm_t c, cudaStream_t s)
{
    return enqueue (__func__, { c, s, HEAD (ALLGATHER, 0, 0), false, 0, in, out });
}

ncclResult_t ncclAlltoAll (const void *in, void *out, size_t count, ncclDataType_t type,
                           ncclComm_t c, cudaStream_t s)
{
    return enqueue (__func__, { c, s, HEAD (ALLTOALL, 0, 0), false, 0, in, out });
}

ncclResult_t ncclSend (const void *in, size_t count, ncclDataType_t type, int peer, ncclComm_t c,
                       cudaStream_t s)
{
    return enqueue (__func__, { c, s, HEAD (POINT, 0, 0), true, peer, in, NULL });
}

ncclResult_t ncclRecv (void *out, size_t count, ncclDataType_t type, int peer, ncclComm_t c,
                       cudaStream_t s)
{
    return enqueue (__func__, { c, s, HEAD (POINT, 0, 0), false, peer, NULL, out });
}
}
