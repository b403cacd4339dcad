/* recorder.c - the ring of the last calls
 *
 * One writer, any number of readers.  An entry's stamp is odd while it is being written
 * and tells the turn afterwards: a reader copies, and takes the copy only if the stamp was
 * the same, and even, before and after (a sequence lock, one for each entry).  An entry has its
 * events for good; a reader asks them between the two looks at the stamp.
 */

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "libcore/comm/recorder.h"
#include "libcore/device/device.h"
#include "libcore/device/graph.h"
#include "libcore/device/stream.h"

enum { MAX_DEVICES = 2, MAX_STREAMS = 64, MAX_WAITS = 256 };

/* Before and behind a call. */
struct ends {
    struct mg_event *begin, *end;
};

struct entry {
    _Atomic uint64_t stamp;
    struct record record;      /* without its state and age, which follow */
    struct stream_place place; /* behind it */
    int device;                /* whose events are used */
    _Atomic bool enqueued;     /* the event behind it is recorded */
    double time;
    struct ends ends[MAX_DEVICES];
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
    struct mg_device *device[MAX_DEVICES]; /* NULL: there is none */
    struct comm comm[RECORDER_COMMS];
    struct entry entry[RECORDER_SIZE];
};

static double now (void)
{
    struct timespec t;

    clock_gettime (CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

struct recorder *recorder_create (struct mg_device *device, struct mg_device *host,
                                  struct mg_error *err)
{
    struct recorder *r = calloc (1, sizeof (*r));

    if (!r) {
        mg_error_set (err, ENOMEM, "recorder: out of memory");
        return NULL;
    }
    r->device[0] = device;
    r->device[1] = host == device ? NULL : host;
    for (int i = 0; i < RECORDER_SIZE; i++) {
        for (int d = 0; d < MAX_DEVICES && r->device[d]; d++) {
            struct ends *ends = &r->entry[i].ends[d];

            if (!(ends->begin = mg_event_create (r->device[d], err))
                || !(ends->end = mg_event_create (r->device[d], err))) {
                recorder_destroy (r);
                return NULL;
            }
        }
    }
    return r;
}

void recorder_destroy (struct recorder *r)
{
    int saved_errno = errno;

    for (int i = 0; r && i < RECORDER_SIZE; i++) {
        for (int d = 0; d < MAX_DEVICES; d++) {
            mg_event_destroy (r->entry[i].ends[d].begin);
            mg_event_destroy (r->entry[i].ends[d].end);
        }
    }
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

/* The peer of the first entry that has another one than the first entry. */
static int find_other (const struct mg_p2p *list, int n)
{
    for (int i = 1; i < n; i++) {
        if (list[i].peer != list[0].peer)
            return list[i].peer;
    }
    return list[0].peer;
}

void recorder_begin (struct recorder *r, int place, const struct comm_request *req,
                     uint64_t bytes, struct mg_stream *stream)
{
    uint64_t number = atomic_load_explicit (&r->next, memory_order_relaxed);
    struct entry *e = &r->entry[number % RECORDER_SIZE];
    bool transfer = req->call == MG_CALL_P2P;
    struct comm *comm = &r->comm[place];

    if (graph_capturing ())
        return;
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
    e->record.more = transfer ? req->n - 1 : 0;
    e->record.other = transfer ? find_other (req->list, req->n) : -1;
    e->device = stream_device (stream) == r->device[1];
    e->place = stream_add_call (stream);
    e->enqueued = false;
    e->time = now ();
    mg_event_record (e->ends[e->device].begin, stream);
    atomic_store_explicit (&e->stamp, 2 * number + 2, memory_order_release);
    atomic_store_explicit (&r->next, number + 1, memory_order_release);
    if (r->watch)
        r->watch (r->watch_arg, &e->record, stream, true);
}

void recorder_end (struct recorder *r, struct mg_stream *stream)
{
    uint64_t next = atomic_load_explicit (&r->next, memory_order_relaxed);
    struct entry *e = &r->entry[(next - 1) % RECORDER_SIZE];

    if (graph_capturing ())
        return;
    mg_event_record (e->ends[e->device].end, stream);
    e->enqueued = true;
    if (r->watch)
        r->watch (r->watch_arg, &e->record, stream, false);
}

void recorder_set_watch (struct recorder *r, recorder_watch_f *watch, void *arg)
{
    r->watch = watch;
    r->watch_arg = arg;
}

/* A call and its place. */
struct found {
    struct record record;
    struct stream_place place;
};

/* Copy call 'number'; false if another has taken its place. */
static bool copy (struct recorder *r, uint64_t number, struct found *out)
{
    struct entry *e = &r->entry[number % RECORDER_SIZE];
    const struct ends *ends;
    double time;

    if (atomic_load_explicit (&e->stamp, memory_order_acquire) != 2 * number + 2)
        return false;
    out->record = e->record;
    out->place = e->place;
    ends = &e->ends[e->device];
    time = e->time;
    out->record.state = RECORD_ENQUEUED;
    if (e->enqueued && event_reached (ends->end))
        out->record.state = RECORD_DONE;
    else if (event_reached (ends->begin))
        out->record.state = RECORD_STARTED;
    atomic_thread_fence (memory_order_acquire);
    if (atomic_load_explicit (&e->stamp, memory_order_relaxed) != 2 * number + 2)
        return false;
    out->record.seconds = now () - time;
    return true;
}

static uint64_t oldest (uint64_t next)
{
    return next > RECORDER_SIZE ? next - RECORDER_SIZE : 0;
}

/* The first call of the stream before the place that is not done. */
static bool first_undone (struct recorder *r, struct stream_place place, struct found *out)
{
    uint64_t next = atomic_load_explicit (&r->next, memory_order_acquire);

    for (uint64_t i = oldest (next); i < next; i++) {
        if (copy (r, i, out) && out->place.stream == place.stream
            && out->place.calls <= place.calls && out->record.state != RECORD_DONE)
            return true;
    }
    return false;
}

/* The streams that were searched, and the places up to which they were, so that no place is
 * searched twice.
 */
struct seen {
    struct stream_place place[MAX_STREAMS];
    int n;
};

/* False if the place was seen, or there are too many streams. */
static bool see (struct seen *seen, struct stream_place place)
{
    int i = 0;

    while (i < seen->n && seen->place[i].stream != place.stream)
        i++;
    if (i == MAX_STREAMS || (i < seen->n && seen->place[i].calls >= place.calls))
        return false;
    seen->place[i] = place;
    seen->n += i == seen->n;
    return true;
}

static bool find_blocking (struct recorder *r, struct stream_place place, struct seen *seen,
                           struct record *out)
{
    struct stream_place on[MAX_WAITS];
    struct found first;
    int n;

    if (first_undone (r, place, &first)) {
        if (first.record.state == RECORD_STARTED) {
            *out = first.record;
            return true;
        }
        place.calls = first.place.calls - 1; // what it waits for comes before it
    }
    n = device_progress_waits (r->device[0], place, on, MAX_WAITS);
    for (int i = 0; i < n; i++) {
        if (see (seen, on[i]) && find_blocking (r, on[i], seen, out))
            return true;
    }
    return false;
}

bool recorder_blocking (struct recorder *r, struct stream_place place, struct record *out)
{
    struct seen seen = { .n = 0 };

    return find_blocking (r, place, &seen, out);
}

bool recorder_newest (struct recorder *r, struct record *out)
{
    uint64_t next = atomic_load_explicit (&r->next, memory_order_acquire);
    struct found found;

    for (uint64_t i = next; i > oldest (next); i--) {
        if (!copy (r, i - 1, &found) || found.record.state == RECORD_ENQUEUED)
            continue;
        *out = found.record;
        return true;
    }
    return false;
}

void recorder_explain (void *arg, char *text, size_t max)
{
    struct recorder *r = arg;
    struct device_waiting waiting;
    struct record record;

    text[0] = '\0';
    if (device_waiting (r->device[0], &waiting) && waiting.place.stream > 0
        && recorder_blocking (r, waiting.place, &record))
        record_describe (&record, text, max);
}

int recorder_last (struct recorder *r, struct record *out, int max)
{
    uint64_t next = atomic_load_explicit (&r->next, memory_order_acquire);
    struct found found;
    int n = 0;

    for (uint64_t i = next; i > oldest (next) && n < max; i--) {
        if (copy (r, i - 1, &found))
            out[n++] = found.record;
    }
    return n;
}

/* A collective that has not begun.  All calls before it may have begun. */
static void lower_count (struct record_count *count, int n, const struct record *record)
{
    for (int i = 0; i < n; i++) {
        if (memcmp (count[i].name, record->name, sizeof (record->name)) == 0
            && count[i].collectives >= record->seq)
            count[i].collectives = record->seq - 1;
    }
}

int recorder_counts (struct recorder *r, struct record_count out[RECORDER_COMMS])
{
    uint64_t next;
    struct found found;
    int n = r->num_comms;

    for (int i = 0; i < n; i++) {
        memcpy (out[i].name, r->comm[i].name, sizeof (out[i].name));
        out[i].collectives = r->comm[i].collectives;
    }
    next = atomic_load_explicit (&r->next, memory_order_acquire);
    for (uint64_t i = oldest (next); i < next; i++) {
        if (copy (r, i, &found) && found.record.state == RECORD_ENQUEUED
            && found.record.call != MG_CALL_P2P)
            lower_count (out, n, &found.record);
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
        return record->more > 0 ? "transfers" : record->sends ? "send" : "receive";
    return record->call >= 0 && record->call < MG_NUM_CALLS ? names[record->call] : "call";
}

void record_describe (const struct record *record, char *text, size_t max)
{
    const char *dtype = mg_dtype_name ((enum mg_dtype)record->dtype);
    unsigned long long seq = record->seq, count = record->count;
    char more[40] = "";

    if (record->more > 0)
        snprintf (more, sizeof (more), " and %d other transfer%s", record->more,
                  record->more == 1 ? "" : "s");
    if (record->call == MG_CALL_P2P)
        snprintf (text, max, "%s %d of %llu %s%s on %.15s", record->sends ? "send to"
                                                                           : "receive from",
                  record->peer, count, dtype, more, record->name);
    else if (record->call < 0 || record->call >= MG_NUM_CALLS)
        snprintf (text, max, "call %d on %.15s", record->call, record->name);
    else if (record->call == MG_CALL_BARRIER)
        snprintf (text, max, "barrier #%llu on %.15s", seq, record->name);
    else
        snprintf (text, max, "%s #%llu of %llu %s on %.15s", record_call_name (record), seq, count,
                  dtype, record->name);
}
