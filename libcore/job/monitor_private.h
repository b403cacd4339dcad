/* monitor_private - the members of a monitor, for the files that implement it. */
#ifndef LIBCORE_JOB_MONITOR_PRIVATE_H
#define LIBCORE_JOB_MONITOR_PRIVATE_H

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

#include "libcore/job/monitor.h"
#include "libcore/job/diagnosis.h"

enum {
    MONITOR_FIRST_FDS = 2 + MONITOR_HUBS, /* wake-up, listener, connections to the hubs */
    MONITOR_STRANGERS = 16,               /* connections of processes that are not
                                           * ranks */
    MONITOR_ABORT_CODE = 1,
};

/* All messages have one size, and there are few of them. */
enum message_kind { MSG_HELLO = 1, MSG_BYE, MSG_FAIL, MSG_SLOW, MSG_TOLD, MSG_ASK, MSG_STATE };

struct message {
    uint64_t token;
    int32_t kind;
    int32_t rank;
    char text[MG_ERROR_MAX];
    struct rank_state state;
};

/* An accepted connection. */
struct peer {
    int fd;   /* -1: free */
    int rank; /* -1: the other end has not greeted yet */
    uint64_t number; /* number of connections that came before this one */
    size_t have;
    struct message message;
};

/* The report that a hub is making. */
struct trouble {
    bool there, fatal, asked;
    double since, asked_at;
    bool rank_0_gone; /* rank 0 has gone, so the other hub need not wait for rank 0 */
    char why[MG_ERROR_MAX];
};

/* The call that holds up this rank. */
struct held {
    char name[RECORD_NAME_MAX];
    int32_t call;
    uint64_t seq;
    double since;
};

struct monitor {
    struct monitor_config config;
    struct endpoint own, hub[MONITOR_HUBS];
    int listener, wake; /* -1: none */
    int met;            /* readable once the thread has tried to connect; -1: none */
    int out[MONITOR_HUBS]; /* to the hubs, -1: none */
    size_t out_have[MONITOR_HUBS];
    struct message out_message[MONITOR_HUBS];
    pthread_t thread;
    bool started;

    pthread_mutex_t lock;
    const struct grid *grid;
    struct mg_device *device;
    struct recorder *recorder;
    bool stop, finishing, failed;
    char fail_text[MG_ERROR_MAX];
    double limit; /* when this rank fails; 0: never */
    char limit_text[MG_ERROR_MAX];
    double missed; /* when the limit passed; 0: it has not, or monitor_limit() has come since */
    _Atomic (const char *) activity;
    _Atomic int64_t number;

    /* the thread's own */
    struct peer *peer;        /* [size + MONITOR_STRANGERS] on a hub */
    int num_peers;            /* number of entries that were ever used */
    uint64_t num_accepted;
    bool deaf;                /* no descriptor is free until a connection ends */
    struct diagnosis_rank *rank; /* [size] on a hub */
    struct pollfd *fds;       /* [MONITOR_FIRST_FDS + size + MONITOR_STRANGERS] */
    struct trouble trouble;
    bool fail_sent, warned, told, bye_sent;
    struct held held; /* at the last look */
    bool hub_left;   /* well: the run is over */
    double warned_at;
    double orphaned; /* time since which no hub is connected; 0: a hub is connected, or
                      * none ever was */
    _Atomic bool connected; /* connected to at least one hub */
};

/* Seconds of a monotonic clock. */
double monitor_now (void);

/* Send a message as a whole, or fail.  The socket's buffer is larger than all messages of
 * a run, so a message that does not fit will not be sent later either.  'text' and
 * 'state' may be NULL.  With fd -1 nothing is sent.
 */
void monitor_send (int fd, uint64_t token, enum message_kind kind, int rank, const char *text,
                   const struct rank_state *state);
void monitor_send_to_hubs (struct monitor *m, enum message_kind kind, const char *text);

/* The hub's functions (monitor_hub.c): the connections of other ranks, and the report. */
int hub_open (struct monitor *m, struct mg_error *err);
void hub_close (struct monitor *m);
void hub_accept (struct monitor *m);
void hub_read (struct monitor *m, struct peer *p);

/* Take the next step from the first sign of trouble to the report. */
void hub_handle_trouble (struct monitor *m);

/* True if every rank that has greeted this hub has said good-bye or died, and nothing is left to
 * report.  True on a rank that is no hub.
 */
bool hub_has_ended (const struct monitor *m);

/* Tell all ranks that the end of this hub is no failure. */
void hub_leave (struct monitor *m);

#endif /* LIBCORE_JOB_MONITOR_PRIVATE_H */
