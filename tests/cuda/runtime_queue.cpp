/* runtime_queue.cpp - operations of streams, and the threads that run them
 *
 * An operation is ready when all before it are done.  A queue has one thread, and runs one
 * operation at a time: so all orders of operations are possible, but no two of one device overlap.
 * If hardware queues are limited, an operation also comes after the one that its hardware queue was
 * given before, whatever the streams.
 */

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <thread>

#include "tests/cuda/runtime.h"

typedef std::unique_lock<std::mutex> locked;

struct queue {
    std::map<uint64_t, runtime_ref> ready;
    std::condition_variable work;
    bool started;
    bool idle; /* no thread has waited for MG_CUDA_IDLE_MS, so ready operations run */
};

static struct state {
    std::mutex mutex;
    std::condition_variable finished;
    struct queue queues[RUNTIME_MAX_DEVICES + 1]; /* the last one has the host functions */
    std::set<struct CUstream_st *> streams;       /* that are not destroyed */
    struct CUstream_st legacy[RUNTIME_MAX_DEVICES];
    std::vector<runtime_ref> left[RUNTIME_MAX_DEVICES]; /* of blocking streams now destroyed */
    std::map<uint64_t, runtime_ref> open[RUNTIME_MAX_DEVICES]; /* issued and not done */
    runtime_ref issued_last[RUNTIME_MAX_DEVICES][RUNTIME_MAX_QUEUES]; /* to a hardware queue */
    int next_queue[RUNTIME_MAX_DEVICES]; /* of the next stream */
    int held[RUNTIME_MAX_DEVICES];       /* multiprocessors, by operations that run apart */
    std::deque<runtime_ref> starved[RUNTIME_MAX_DEVICES]; /* ready; not enough are free */
    uint64_t issued;
    int waiting; /* threads that wait for an operation now, or have asked for one */
    std::mt19937 random;
    bool started;
} *own = new state; /* never destroyed: threads may outlive main() */

/* Called with the lock. */
static void start ()
{
    if (own->started)
        return;
    own->started = true;
    own->random.seed (runtime_settings ()->seed);
    for (int i = 0; i < RUNTIME_MAX_DEVICES; i++) {
        own->legacy[i] = {};
        own->legacy[i].device = i;
        own->legacy[i].blocking = own->legacy[i].legacy = true;
    }
}

static int num_free (int device)
{
    return runtime_settings ()->multiprocessors - own->held[device];
}

/* The ready operation to run now, NULL if none should. */
static runtime_ref choose (struct queue *q)
{
    auto order = runtime_settings ()->order;
    runtime_ref best;

    if (!q->ready.empty () && !q->ready.begin ()->second->on_host
        && num_free (q->ready.begin ()->second->device) == 0)
        return nullptr;
    if (order == runtime_settings::FIRST) {
        for (auto &i : q->ready)
            if (!best || i.second->priority < best->priority)
                best = i.second;
        return best;
    }
    if (q->ready.empty () || (!q->idle && own->waiting == 0))
        return nullptr;
    if (order == runtime_settings::RANDOM && (q->idle || own->random () % 2)) {
        auto i = q->ready.begin ();

        std::advance (i, own->random () % q->ready.size ());
        return i->second;
    }
    if (q->idle || order == runtime_settings::LAST)
        return q->ready.rbegin ()->second;
    for (auto i = q->ready.rbegin (); i != q->ready.rend (); ++i)
        if (i->second->wanted)
            return i->second;
    return nullptr;
}

static struct queue *queue_of (const runtime_ref &op)
{
    return &own->queues[op->on_host ? RUNTIME_MAX_DEVICES : op->device];
}

static void run_apart (runtime_ref op);

/* Start operations that wait for multiprocessors, first the one that was ready first. */
static void start_apart (int device)
{
    auto &starved = own->starved[device];

    while (!starved.empty () && starved.front ()->holds <= num_free (device)) {
        own->held[device] += starved.front ()->holds;
        std::thread (run_apart, starved.front ()).detach ();
        starved.pop_front ();
    }
}

static void make_ready (const runtime_ref &op)
{
    if (op->apart) {
        own->starved[op->device].push_back (op);
        start_apart (op->device);
        return;
    }
    struct queue *q = queue_of (op);

    q->ready[op->number] = op;
    q->work.notify_all ();
}

static void finish (const runtime_ref &op)
{
    op->end = std::chrono::steady_clock::now ();
    op->done = true;
    if (op->wanted)
        own->waiting--;
    op->run = nullptr;
    op->before.clear ();
    own->open[op->device].erase (op->number);
    if (op->holds) {
        own->held[op->device] -= op->holds;
        start_apart (op->device);
        own->queues[op->device].work.notify_all ();
    }
    for (auto &next : op->next)
        if (--next->unmet == 0)
            make_ready (next);
    op->next.clear ();
    own->finished.notify_all ();
}

static void run_apart (runtime_ref op)
{
    runtime_begin_thread ();
    if (runtime_sticky (op->device) == cudaSuccess) {
        cudaError_t e = op->run ();
        if (e != cudaSuccess)
            runtime_set_sticky (op->device, e);
    }
    locked hold (own->mutex);
    finish (op);
}

static void work (struct queue *q, int device)
{
    auto patience = std::chrono::milliseconds (runtime_settings ()->idle_ms);

    runtime_begin_thread ();
    locked hold (own->mutex);
    for (;;) {
        uint64_t before = own->issued;
        runtime_ref op = choose (q);

        if (!op && q->ready.empty ()) {
            q->idle = false;
            q->work.wait (hold);
            continue;
        }
        if (!op) {
            q->idle = q->work.wait_for (hold, patience) == std::cv_status::timeout
                      && before == own->issued;
            continue;
        }
        q->ready.erase (op->number);
        hold.unlock ();
        if (op->run && runtime_sticky (op->device) == cudaSuccess) {
            runtime_allow (device); /* a kernel that failed has lost the rights */
            cudaError_t e = op->run ();
            if (e != cudaSuccess)
                runtime_set_sticky (op->device, e);
        }
        hold.lock ();
        finish (op);
    }
}

static void start_thread (struct queue *q, int device)
{
    if (q->started)
        return;
    q->started = true;
    std::thread (work, q, device).detach ();
}

static void add_before (const runtime_ref &op, const runtime_ref &before)
{
    if (!before || before->done)
        return;
    op->before.push_back (before);
    op->unmet++;
    before->next.push_back (op);
}

/* The following are called with the lock. */

static runtime_ref make (std::function<cudaError_t ()> run, int device, bool on_host, int priority)
{
    runtime_ref op = std::make_shared<runtime_op> ();

    op->run = std::move (run);
    op->device = device;
    op->on_host = on_host;
    op->priority = priority;
    op->number = ++own->issued;
    return op;
}

/* The operation comes after the last one that its hardware queue was given. */
static void enter_hardware (const runtime_ref &op, struct CUstream_st *stream)
{
    if (runtime_settings ()->queues == 0)
        return;
    auto &last = own->issued_last[stream->device][stream->queue];
    add_before (op, last);
    last = op;
}

/* The operation comes after the last one of its stream, and is now the last one. */
static void follow (const runtime_ref &op, struct CUstream_st *stream)
{
    add_before (op, stream->last);
    enter_hardware (op, stream);
    if (stream->legacy) {
        for (auto other : own->streams)
            if (other->blocking && other->device == stream->device)
                add_before (op, other->last);
        for (auto &other : own->left[stream->device])
            add_before (op, other);
        own->left[stream->device].clear ();
    } else if (stream->blocking) {
        add_before (op, own->legacy[stream->device].last);
    }
    stream->last = op;
}

/* All operations that come before this one have been added. */
static void issue (const runtime_ref &op)
{
    own->open[op->device][op->number] = op;
    start_thread (queue_of (op), op->on_host ? -1 : op->device);
    if (op->unmet == 0)
        make_ready (op);
}

/* The operation comes after the last one of the chain, and is now the last one. */
static void add_to_chain (const runtime_ref &op, struct runtime_chain *chain)
{
    if (!chain)
        return;
    op->apart = true;
    op->holds = chain->holds;
    add_before (op, chain->last);
    chain->last = op;
}

runtime_ref runtime_submit (struct CUstream_st *stream, std::function<cudaError_t ()> run,
                            bool on_host, runtime_ref also, struct runtime_chain *chain)
{
    if (runtime_take (stream, &run, on_host, chain))
        return nullptr;
    locked hold (own->mutex);
    start ();
    runtime_ref op = make (std::move (run), stream->device, on_host, stream->priority);
    add_before (op, also);
    add_to_chain (op, chain);
    follow (op, stream);
    issue (op);
    return op;
}

runtime_ref runtime_submit_nodes (struct CUstream_st *stream,
                                  const std::vector<runtime_node> &nodes, const runtime_ref &also)
{
    std::vector<runtime_ref> ops;
    locked hold (own->mutex);

    start ();
    runtime_ref first = make (nullptr, stream->device, false, stream->priority);
    add_before (first, also);
    follow (first, stream);
    for (auto &node : nodes) {
        runtime_ref op = make (node.run, node.device, node.on_host, node.priority);

        add_before (op, first);
        for (int i : node.before)
            add_before (op, ops[i]);
        add_to_chain (op, node.chain);
        if (runtime_settings ()->queues == 1 && !ops.empty ())
            add_before (op, ops.back ());
        ops.push_back (op);
    }
    runtime_ref last = make (nullptr, stream->device, false, stream->priority);
    add_before (last, first);
    for (auto &op : ops)
        add_before (last, op);
    stream->last = last;
    if (runtime_settings ()->queues)
        own->issued_last[stream->device][stream->queue] = last;
    issue (first);
    for (auto &op : ops)
        issue (op);
    issue (last);
    return last;
}

/* A thread waits for this operation, and so for all before it.  Called with the lock. */
static void want (const runtime_ref &op)
{
    std::vector<runtime_ref> rest = { op };

    while (!rest.empty ()) {
        runtime_ref one = rest.back ();

        rest.pop_back ();
        if (one->done || one->wanted)
            continue;
        one->wanted = true;
        own->waiting++;
        for (auto &b : one->before)
            rest.push_back (b);
    }
    for (auto &q : own->queues)
        q.work.notify_all ();
}

void runtime_wait (const runtime_ref &op)
{
    if (!op)
        return;
    locked hold (own->mutex);
    want (op);
    own->finished.wait (hold, [&] { return op->done; });
}

bool runtime_done (const runtime_ref &op)
{
    if (!op)
        return true;
    locked hold (own->mutex);
    if (!op->done)
        want (op);
    return op->done;
}

void runtime_wait_device (int device)
{
    locked hold (own->mutex);
    auto &open = own->open[device];

    while (!open.empty ()) {
        runtime_ref op = open.rbegin ()->second;

        want (op);
        own->finished.wait (hold, [&] { return op->done; });
    }
}

runtime_ref runtime_chain_last (struct runtime_chain *chain)
{
    locked hold (own->mutex);

    return chain->last;
}

runtime_ref runtime_last (struct CUstream_st *stream)
{
    locked hold (own->mutex);

    return stream->last;
}

struct CUstream_st *runtime_stream (cudaStream_t handle)
{
    locked hold (own->mutex);

    start ();
    if (!handle || handle == cudaStreamLegacy)
        return &own->legacy[runtime_device ()];
    return own->streams.count (handle) ? handle : nullptr;
}

struct CUstream_st *runtime_stream_create (int device, bool blocking, int priority)
{
    struct CUstream_st *stream = new CUstream_st ();
    locked hold (own->mutex);

    start ();
    stream->device = device;
    stream->blocking = blocking;
    stream->priority = priority;
    if (runtime_settings ()->queues)
        stream->queue = own->next_queue[device]++ % runtime_settings ()->queues;
    own->streams.insert (stream);
    return stream;
}

void runtime_stream_destroy (struct CUstream_st *stream)
{
    locked hold (own->mutex);

    if (stream->blocking && stream->last)
        own->left[stream->device].push_back (stream->last);
    own->streams.erase (stream);
    delete stream;
}
