/* nccl.cpp - the double of NCCL: ranks of one machine exchange through POSIX shared memory
 *
 * Each pair of ranks has a ring of bytes.  A call is one operation on its stream, and a thread of
 * its own runs it.  Calls of a communicator run in the order of enqueuing.  Each message begins
 * with what its sender calls: a receiver that calls something else fails the communicator, where
 * the real library would hang.  A sum begins at another rank for each slice, so it is not in rank
 * order.
 */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include <nccl.h>

#include "tests/cuda/runtime.h"

enum { MAX_RANKS = 64, RING = 1 << 16, SLICE = 256 };

struct ring {
    std::atomic<uint64_t> head, tail; /* bytes written, and read */
    char data[RING];
};
struct shared {
    std::atomic<int> came, failed, nranks;
    std::atomic<int> pid[MAX_RANKS], finished[MAX_RANKS];
    struct ring rings[]; /* from * nranks + to */
};

/* What all ranks of a call must agree on; 'bytes' is of this message. */
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
    struct shared *shm;
    size_t size;
    std::atomic<int> state, aborted;
    runtime_ref last;
    void *memory;              /* of the device, as the real library takes some */
    bool connected[7];         /* for calls of this kind, which takes some more */
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

static bool comm_fail (ncclComm *c, ncclResult_t why, const char *text)
{
    int good = ncclSuccess;

    if (c->state.compare_exchange_strong (good, why))
        fprintf (stderr, "nccl double: rank %d: %s\n", c->rank, text);
    return false;
}

/* False if the communicator has failed, or a rank of it is gone. */
static bool alive (ncclComm *c)
{
    if (c->aborted || c->state != ncclSuccess)
        return false;
    for (int r = 0; r < c->n; r++)
        if (!c->shm->finished[r] && c->shm->pid[r] && kill (c->shm->pid[r], 0) && errno == ESRCH)
            return comm_fail (c, ncclRemoteError, "a rank of the communicator is gone");
    if (c->shm->failed)
        return comm_fail (c, ncclRemoteError, "another rank failed");
    return true;
}

/* Move what can be moved of one message.  True if some byte went. */
static bool move (struct ring *ring, struct message *m, bool is_send)
{
    size_t total = sizeof m->head + m->head.bytes;
    bool moved = false;

    while (m->at < total) {
        bool in_head = m->at < sizeof m->head;
        uint64_t h = ring->head, t = ring->tail, pos = (is_send ? h : t) % RING;
        size_t room = is_send ? RING - (h - t) : h - t;
        char *p = in_head ? (char *)(is_send ? &m->head : &m->got) + m->at
                          : m->data + (m->at - sizeof m->head);
        size_t k = std::min ({ room, RING - pos, (in_head ? sizeof m->head : total) - m->at });

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

/* Move all messages, together; those of one pair in their order. */
static bool exchange (ncclComm *c, std::vector<message> &out, std::vector<message> &in)
{
    for (unsigned turn = 0;; turn++) {
        bool busy = false, moved = false;

        for (int way = 0; way < 2; way++) {
            std::vector<bool> held (c->n);
            for (auto &m : way ? in : out) {
                struct ring *ring = &c->shm->rings[way ? m.peer * c->n + c->rank
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
            std::this_thread::sleep_for (std::chrono::microseconds (20));
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

/* 'in' has a row of 'count' elements of each rank; 'from' is the number of the first. */
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
        /* what arrives lies apart until all was sent: the forms in place */
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

/* Issue the calls of a group: one operation for each communicator. */
static ncclResult_t flush ()
{
    std::vector<struct call> all;

    all.swap (pending);
    while (!all.empty ()) {
        ncclComm *c = all[0].comm;
        std::vector<struct call> mine, rest;
        for (auto &a : all)
            (a.comm == c ? mine : rest).push_back (a);
        for (auto &a : mine)
            if (a.stream != mine[0].stream)
                return ncclInvalidUsage; /* the double has one stream a communicator and group */
        CUstream_st *stream = runtime_stream (mine[0].stream);
        if (!stream || stream->device != c->device)
            return ncclInvalidArgument;
        c->last = runtime_submit (
            stream,
            [c, mine] {
                runtime_allow (c->device);
                run_calls (c, mine);
                /* after a failure what is behind never runs, until the communicator is aborted */
                while (c->state != ncclSuccess && !c->aborted)
                    std::this_thread::sleep_for (std::chrono::milliseconds (1));
                return cudaSuccess;
            },
            false, c->last, true);
        all.swap (rest);
    }
    return ncclSuccess;
}

static ncclResult_t enqueue (struct call a)
{
    ncclResult_t e = ncclSuccess;
    ncclComm *c = a.comm;
    int kind = a.head.kind;

    if (!c || a.head.type < 0 || a.head.type >= ncclNumTypes || a.head.op < 0
        || a.head.op >= ncclNumOps || a.head.root < 0 || a.head.root >= c->n || a.peer < 0
        || a.peer >= c->n) {
        e = ncclInvalidArgument;
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
        return e;
    }
    if (!c->connected[kind]) {
        void *more;
        if (cudaMalloc (&more, KIND_BYTES) != cudaSuccess)
            return ncclUnhandledCudaError;
        c->connected[kind] = true;
    }
    pending.push_back (a);
    return depth ? ncclSuccess : flush ();
}

static void join (ncclComm *c, std::string name)
{
    int fd = shm_open (name.c_str (), O_RDWR | O_CREAT, 0600), none = 0;
    void *p = MAP_FAILED;

    c->size = sizeof (struct shared) + sizeof (struct ring) * c->n * c->n;
    if (fd >= 0 && ftruncate (fd, c->size) == 0)
        p = mmap (NULL, c->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0)
        close (fd);
    if (p == MAP_FAILED) {
        c->state = ncclSystemError;
        return;
    }
    c->shm = (struct shared *)p;
    if ((!c->shm->nranks.compare_exchange_strong (none, c->n) && none != c->n)
        || c->shm->pid[c->rank].exchange (getpid ()) != 0) {
        c->state = ncclInvalidUsage;
        return;
    }
    c->shm->came++;
    while (c->shm->came < c->n && !c->aborted)
        std::this_thread::sleep_for (std::chrono::microseconds (200));
    shm_unlink (name.c_str ());
    if (!c->aborted)
        c->state = ncclSuccess;
}

extern "C" {

ncclResult_t ncclGetVersion (int *version)
{
    if (!version)
        return ncclInvalidArgument;
    *version = NCCL_VERSION_CODE;
    return ncclSuccess;
}

ncclResult_t ncclGetUniqueId (ncclUniqueId *id)
{
    if (!id)
        return ncclInvalidArgument;
    memset (id, 0, sizeof *id);
    return getrandom (id, 16, 0) == 16 ? ncclSuccess : ncclSystemError;
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

/* The ranges of the real library; MG_NCCL_LOG=FILE: a line of what is set. */
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
    std::string name = "/mg-nccl-";
    char hex[3];

    if (!out || n < 1 || n > MAX_RANKS || rank < 0 || rank >= n
        || (config && check_config (config) != ncclSuccess))
        return ncclInvalidArgument;
    for (int i = 0; i < 16; i++)
        name += (snprintf (hex, sizeof hex, "%02x", (unsigned char)id.internal[i]), hex);
    ncclComm *c = new ncclComm ();
    c->rank = rank;
    c->n = n;
    c->device = runtime_device ();
    c->state = ncclInProgress;
    *out = c;
    if (cudaMalloc (&c->memory, COMM_BYTES) != cudaSuccess)
        return ncclUnhandledCudaError;
    if (config && config->blocking == 0) {
        std::thread (join, c, name).detach ();
        return ncclInProgress;
    }
    join (c, name);
    return (ncclResult_t)(int)c->state;
}

ncclResult_t ncclCommInitRank (ncclComm_t *out, int n, ncclUniqueId id, int rank)
{
    return ncclCommInitRankConfig (out, n, id, rank, NULL);
}

ncclResult_t ncclCommGetAsyncError (ncclComm_t c, ncclResult_t *e)
{
    if (!c || !e)
        return ncclInvalidArgument;
    if (c->state == ncclSuccess)
        alive (c);
    *e = (ncclResult_t)(int)c->state;
    return ncclSuccess;
}

ncclResult_t ncclCommFinalize (ncclComm_t c)
{
    if (!c)
        return ncclInvalidArgument;
    runtime_wait (c->last);
    if (c->shm)
        c->shm->finished[c->rank] = 1;
    return ncclSuccess;
}

/* The memory of a communicator stays: a thread of it may still look. */
ncclResult_t ncclCommDestroy (ncclComm_t c)
{
    return ncclCommFinalize (c);
}

ncclResult_t ncclCommAbort (ncclComm_t c)
{
    if (!c)
        return ncclInvalidArgument;
    c->aborted = 1;
    return ncclCommFinalize (c);
}

#define NUMBER(function, field)                                                                    \
    ncclResult_t function (const ncclComm_t c, int *out)                                           \
    {                                                                                              \
        if (!c || !out)                                                                            \
            return ncclInvalidArgument;                                                            \
        *out = c->field;                                                                           \
        return ncclSuccess;                                                                        \
    }
NUMBER (ncclCommCount, n)
NUMBER (ncclCommCuDevice, device)
NUMBER (ncclCommUserRank, rank)

ncclResult_t ncclGroupStart ()
{
    depth++;
    return ncclSuccess;
}

ncclResult_t ncclGroupEnd ()
{
    if (depth == 0)
        return ncclInvalidUsage;
    if (--depth)
        return ncclSuccess;
    ncclResult_t e = group_error;
    group_error = ncclSuccess;
    if (e == ncclSuccess)
        return flush ();
    pending.clear ();
    return e;
}

#define HEAD(kind, op, root) { kind, type, op, root, count, 0 }

ncclResult_t ncclAllReduce (const void *in, void *out, size_t count, ncclDataType_t type,
                            ncclRedOp_t op, ncclComm_t c, cudaStream_t s)
{
    return enqueue ({ c, s, HEAD (ALLREDUCE, op, 0), false, 0, in, out });
}

ncclResult_t ncclReduce (const void *in, void *out, size_t count, ncclDataType_t type,
                         ncclRedOp_t op, int root, ncclComm_t c, cudaStream_t s)
{
    return enqueue ({ c, s, HEAD (REDUCE, op, root), false, 0, in, out });
}

ncclResult_t ncclBroadcast (const void *in, void *out, size_t count, ncclDataType_t type, int root,
                            ncclComm_t c, cudaStream_t s)
{
    return enqueue ({ c, s, HEAD (BROADCAST, 0, root), false, 0, in, out });
}

ncclResult_t ncclReduceScatter (const void *in, void *out, size_t count, ncclDataType_t type,
                                ncclRedOp_t op, ncclComm_t c, cudaStream_t s)
{
    return enqueue ({ c, s, HEAD (REDUCESCATTER, op, 0), false, 0, in, out });
}

ncclResult_t ncclAllGather (const void *in, void *out, size_t count, ncclDataType_t type,
                            ncclComm_t c, cudaStream_t s)
{
    return enqueue ({ c, s, HEAD (ALLGATHER, 0, 0), false, 0, in, out });
}

ncclResult_t ncclAlltoAll (const void *in, void *out, size_t count, ncclDataType_t type,
                           ncclComm_t c, cudaStream_t s)
{
    return enqueue ({ c, s, HEAD (ALLTOALL, 0, 0), false, 0, in, out });
}

ncclResult_t ncclSend (const void *in, size_t count, ncclDataType_t type, int peer, ncclComm_t c,
                       cudaStream_t s)
{
    return enqueue ({ c, s, HEAD (POINT, 0, 0), true, peer, in, NULL });
}

ncclResult_t ncclRecv (void *out, size_t count, ncclDataType_t type, int peer, ncclComm_t c,
                       cudaStream_t s)
{
    return enqueue ({ c, s, HEAD (POINT, 0, 0), false, peer, NULL, out });
}
}
