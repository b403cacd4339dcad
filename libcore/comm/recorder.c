/* recorder.c - the ring of the last calls
 *
 * One writer, any number of readers.  An entry's stamp is odd while the entry is written,
 * and is its turn afterwards.  A reader copies the entry, and uses the copy only if the
 * stamp was the same, and even, before and after (a sequence lock for each entry).
 */

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "libcore/comm/recorder.h"

struct entry {
    _Atomic uint64_t stamp;
    struct record record; /* without its state and age, which follow */
    const struct queue_lane *lane;
    uint64_t mark;
    double time;
};

struct comm {
    char name[RECORD_NAME_MAX];
    _Atomic uint64_t collectives, transfers;
};

struct recorder {
    _Atomic uint64_t next; /* number of the next call */
    _Atomic int num_comms;
    recorder_watch_f *watch; /* NULL: there is no watch */
    void *watch_arg;
    struct comm comm[RECORDER_COMMS];
    struct entry entry[RECORDER_SIZE];
};

static double now (void)
{
    struct timespec t;

    clock_gettime (CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

struct recorder *recorder_create (struct mg_error *err)
{
    struct recorder *r = calloc (1, sizeof (*r));

    if (!r)
        mg_error_set (err, ENOMEM, "recorder: out of memory");
    return r;
}

void recorder_destroy (struct recorder *r)
{
    int saved_errno = errno;

    free (r);
    errno = saved_errno;
}

int recorder_place (struct recorder *r, const char *name)
{
    int place = r->num_comms;

    if (place == RECORDER_COMMS)
        return -1;
    snprintf (r->comm[place].name, sizeof (r->comm[place].name), "%s", name);
    r->num_comms = place + 1;
    return place;
}

void recorder_add (struct recorder *r, int place, const struct comm_request *req,
                   uint64_t bytes, const struct queue_lane *lane, uint64_t mark)
{
    uint64_t number = atomic_load_explicit (&r->next, memory_order_relaxed);
    struct entry *e = &r->entry[number % RECORDER_SIZE];
    bool transfer = req->call == MG_CALL_P2P;
    struct comm *comm = &r->comm[place];

    atomic_store_explicit (&e->stamp, 2 * number + 1, memory_order_relaxed);
    atomic_thread_fence (memory_order_release);
    memcpy (e->record.name, comm->name, sizeof (e->record.name));
    e->record.seq = 1 + atomic_fetch_add_explicit (transfer ? &comm->transfers
                                                            : &comm->collectives,
                                                   1, memory_order_relaxed);
    e->record.call = (int32_t)req->call;
    e->record.dtype = (int32_t)(transfer ? req->list[0].dtype : req->dtype);
    e->record.count = transfer ? req->list[0].count : req->count;
    e->record.bytes = bytes;
    e->record.peer = transfer ? req->list[0].peer : -1;
    e->record.sends = transfer && req->list[0].kind == MG_SEND;
    e->lane = lane;
    e->mark = mark;
    e->time = now ();
    atomic_store_explicit (&e->stamp, 2 * number + 2, memory_order_release);
    atomic_store_explicit (&r->next, number + 1, memory_order_release);
    if (r->watch)
        r->watch (r->watch_arg, &e->record, lane, mark);
}

void recorder_set_watch (struct recorder *r, recorder_watch_f *watch, void *arg)
{
    r->watch = watch;
    r->watch_arg = arg;
}

/* Copy call 'number'; false if another has taken its place. */
static bool copy (struct recorder *r, uint64_t number, struct entry *out)
{
    struct entry *e = &r->entry[number % RECORDER_SIZE];

    if (atomic_load_explicit (&e->stamp, memory_order_acquire) != 2 * number + 2)
        return false;
    out->record = e->record;
    out->lane = e->lane;
    out->mark = e->mark;
    out->time = e->time;
    atomic_thread_fence (memory_order_acquire);
    if (atomic_load_explicit (&e->stamp, memory_order_relaxed) != 2 * number + 2)
        return false;
    out->record.seconds = now () - out->time;
    out->record.state = RECORD_ENQUEUED;
    if (out->lane && queue_reached (out->lane, out->mark))
        out->record.state = RECORD_DONE;
    else if (out->lane && queue_reached (out->lane, out->mark - 1))
        out->record.state = RECORD_STARTED;
    return true;
}

static uint64_t oldest (uint64_t next)
{
    return next > RECORDER_SIZE ? next - RECORDER_SIZE : 0;
}

bool recorder_first (struct recorder *r, const struct queue_lane *lane, struct record *out)
{
    uint64_t next = atomic_load_explicit (&r->next, memory_order_acquire);
    struct entry e;

    for (uint64_t i = oldest (next); i < next; i++) {
        if (!copy (r, i, &e) || e.lane != lane || e.record.state == RECORD_DONE)
            continue;
        *out = e.record;
        return true;
    }
    return false;
}

int recorder_last (struct recorder *r, struct record *out, int max)
{
    uint64_t next = atomic_load_explicit (&r->next, memory_order_acquire);
    struct entry e;
    int n = 0;

    for (uint64_t i = next; i > oldest (next) && n < max; i--) {
        if (copy (r, i - 1, &e))
            out[n++] = e.record;
    }
    return n;
}

int recorder_counts (struct recorder *r, struct record_count out[RECORDER_COMMS])
{
    int n = r->num_comms;

    for (int i = 0; i < n; i++) {
        memcpy (out[i].name, r->comm[i].name, sizeof (out[i].name));
        out[i].collectives = r->comm[i].collectives;
    }
    return n;
}

const char *record_call_name (const struct record *record)
{
    static const char *const names[MG_NUM_CALLS] = {
        [MG_CALL_ALL_REDUCE] = "all-reduce",
        [MG_CALL_REDUCE_SCATTER] = "reduce-scatter",
        [MG_CALL_ALL_GATHER] = "all-gather",
        [MG_CALL_ALL_TO_ALL] = "all-to-all",
        [MG_CALL_BROADCAST] = "broadcast",
        [MG_CALL_BARRIER] = "barrier",
    };

    if (record->call == MG_CALL_P2P)
        return record->sends ? "send" : "receive";
    return record->call >= 0 && record->call < MG_NUM_CALLS ? names[record->call] : "call";
}

void record_describe (const struct record *record, char *text, size_t max)
{
    const char *dtype = mg_dtype_name ((enum mg_dtype)record->dtype);
    unsigned long long seq = record->seq, count = record->count;

    if (record->call == MG_CALL_P2P)
        snprintf (text, max, "%s %d of %llu %s on %.15s", record->sends ? "send to"
                                                                         : "receive from",
                  record->peer, count, dtype, record->name);
    else if (record->call < 0 || record->call >= MG_NUM_CALLS)
        snprintf (text, max, "call %d on %.15s", record->call, record->name);
    else if (record->call == MG_CALL_BARRIER)
        snprintf (text, max, "barrier #%llu on %.15s", seq, record->name);
    else
        snprintf (text, max, "%s #%llu of %llu %s on %.15s", record_call_name (record), seq, count,
                  dtype, record->name);
}
