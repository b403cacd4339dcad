/* monitor_private - a monitor's parts, for its files. */
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
    MONITOR_STRANGERS = 16,               /* connections beside the ranks' */
    MONITOR_ABORT_CODE = 1,
};

/* Messages are of one size and few. */
enum message_kind { MSG_HELLO = 1, MSG_BYE, MSG_FAIL, MSG_SLOW, MSG_TOLD, MSG_ASK, MSG_STATE };

struct message {
    uint64_t token;
    int32_t kind;
    int32_t rank;
    char text[MG_ERROR_MAX];
    struct rank_state state;
};

/* A connection that has been accepted. */
struct peer {
    int fd;   /* -1: free */
    int rank; /* -1: it has not greeted yet */
    uint64_t number; /* of connections that came before it */
    size_t have;
    struct message message;
};

/* What a hub is about to tell. */
struct trouble {
    bool there, fatal, asked;
    double since, asked_at;
    bool rank_0_gone; /* so that the deputy need not wait for it */
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
    bool stop, failed;
    char fail_text[MG_ERROR_MAX];
    _Atomic (const char *) activity;
    _Atomic int64_t number;

    /* the thread's own */
    struct peer *peer;        /* [size + MONITOR_STRANGERS] of a hub */
    int num_peers;            /* of them were ever used */
    uint64_t num_accepted;
    bool deaf;                /* till a connection ends there is no descriptor for more */
    struct diagnosis_rank *rank; /* [size] of a hub */
    struct pollfd *fds;       /* [MONITOR_FIRST_FDS + size + MONITOR_STRANGERS] */
    struct trouble trouble;
    bool fail_sent, warned, told;
    struct held held; /* at the last look */
    bool hub_left;   /* well: the run is over */
    double warned_at;
    double orphaned; /* since when no hub is there any more, 0: one is, or never was */
    _Atomic bool connected; /* to a hub at least */
};

/* Seconds of a clock that only goes on. */
double monitor_now (void);

/* All or nothing: what does not fit into the socket's buffer, which is larger than all
 * that is ever sent, will not arrive later either.  'text' and 'state' may be NULL, and
 * fd -1: then nothing is sent.
 */
void monitor_send (int fd, uint64_t token, enum message_kind kind, int rank, const char *text,
                   const struct rank_state *state);
void monitor_send_to_hubs (struct monitor *m, enum message_kind kind, const char *text);

/* A hub's side (monitor_hub.c): what other ranks connect to, what is said when. */
int hub_open (struct monitor *m, struct mg_error *err);
void hub_close (struct monitor *m);
void hub_accept (struct monitor *m);
void hub_read (struct monitor *m, struct peer *p);

/* One step on the way from trouble to the report. */
void hub_handle_trouble (struct monitor *m);

/* Say that this end is no reason for others to end. */
void hub_leave (struct monitor *m);

#endif /* LIBCORE_JOB_MONITOR_PRIVATE_H */
