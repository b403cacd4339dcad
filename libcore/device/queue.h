/* queue - host work that waits for other processes, on one thread of its own.
 *
 * Work is polled and never blocks: a piece of work is a small state machine whose poll
 * function makes the progress that is possible, and returns.  Work on one lane is done in
 * the order of submission; the first piece of every lane is in progress at the same time,
 * so a lane that waits for a slow peer never delays another lane.  One thread, the
 * communication thread, calls all poll functions; it is started by the first submission,
 * sleeps when there is nothing to do, blocks all signals, and flushes denormals
 * (flush.h), whatever the mode of the submitting thread is.
 *
 * The queue allocates nothing after the creation of its lanes: the submitter owns the
 * memory of a piece of work, which must stay until release() is called.
 *
 * A failure (a poll function's -1, a wait that passes its deadline, queue_fail()) is
 * final and concerns the whole queue: the first text is kept, no poll or release function
 * is called any more, and every present and later wait or submission returns -1 with that
 * text.  All functions but create and destroy may be called from any thread, but not from
 * poll or release functions (except where noted).
 */
#ifndef LIBCORE_DEVICE_QUEUE_H
#define LIBCORE_DEVICE_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "megatron/error.h"

struct queue;
struct queue_lane;

struct work {
    /* Make progress.  Returns 1 if done, 0 to be called again, -1 with a text if failed;
     * the queue adds the description of the work before the text. On the communication
     * thread.  Must not block (start-up and shut-down work may).
     */
    int (*poll) (struct work *work, struct mg_error *err);

    /* Called when the work is done and no longer in the queue: its memory may be used
     * again from here on. On the communication thread, with the queue's lock held: must
     * not call queue functions. NULL: nothing to do.
     */
    void (*release) (struct work *work);

    /* Describe the work, for the message of a wait that passes its deadline: "all-reduce
     * of 4096 float32 on tp". Any thread, while the work is in the queue.
     */
    void (*describe) (const struct work *work, char *text, size_t max);

    /* The source of the news that the work waits for.  NULL: there is none, and the work is polled
     * again and again.
     */
    struct queue_source *source;

    struct work *next; /* the queue's own */
};

/* A source of news from other processes, such as a transport with a descriptor that becomes
 * readable.  If the work in progress on all lanes has the same source, the thread sleeps on the
 * descriptor when nothing moves.  Its functions are called on the communication thread, as poll
 * functions are, and never at the same time as they.
 */
struct queue_source {
    /* Let the transport make progress.  Called before each round of poll functions, which must not
     * do it themselves: else news that one of them gets for another would be slept over.
     */
    void (*progress) (struct queue_source *source);

    /* Make the descriptor readable when there is news.  True: nothing has happened since
     * progress().  False: something has, or the source cannot be slept on.
     */
    bool (*arm) (struct queue_source *source);

    int fd;

    /* True if nothing of work that is done is still to be sent.  A transport may report a message
     * as sent that it only keeps, until a peer has room for it.  While there is no work, progress()
     * and this function are called until it returns true.  NULL: nothing is kept.  Of the sources
     * of a queue, one may have this function, which is called with the queue's lock held and must
     * be quick.  Before such a source is freed, work of the queue sets it to NULL.
     */
    bool (*settled) (struct queue_source *source);
};

/* The source of work that waits only for other work of the same queue. */
extern struct queue_source queue_inner;

/* 'timeout': seconds that queue_wait() waits at most, more than 0. NULL and a text on
 * failure.
 */
struct queue *queue_create (double timeout, struct mg_error *err);

/* Ends the thread and frees the queue and its lanes. Without a failure all lanes must be
 * idle. After one, a thread that is stuck in a poll function is left behind after a
 * second, with the memory that it uses. NULL is allowed. Keeps errno.
 */
void queue_destroy (struct queue *queue);

/* A lane in which nothing has been submitted. 'name' is copied. NULL and a text on
 * failure.
 */
struct queue_lane *queue_lane_create (struct queue *queue, const char *name,
                                      struct mg_error *err);

/* Destroy a lane, which must be idle unless the queue has failed.  The lane's marks stay
 * valid, and count as reached, until the queue is destroyed.
 */
void queue_lane_destroy (struct queue_lane *lane);

/* Append work to the lane. 0, or -1 and a text if the queue has failed or its thread
 * cannot be started.
 */
int queue_submit (struct queue_lane *lane, struct work *work, struct mg_error *err);

/* Returns the point after all work that was submitted so far, for the next two functions. */
uint64_t queue_lane_mark (const struct queue_lane *lane);

/* True if all work up to the mark is done.  Never blocks.  Poll functions may call this. */
bool queue_reached (const struct queue_lane *lane, uint64_t mark);

/* Block until the mark is reached. -1 with a text: EIO for the queue's failure, ETIMEDOUT
 * at the deadline, with a text that names the current work of the lane.
 */
int queue_wait (struct queue_lane *lane, uint64_t mark, struct mg_error *err);

/* Submit work and wait for it, as queue_submit() and queue_wait() do together.  The
 * communication thread knows from the beginning that a thread waits.
 */
int queue_run (struct queue_lane *lane, struct work *work, struct mg_error *err);

/* Something besides the queue's own work that a thread waits for: an event of a GPU, a connection.
 */
struct queue_wait {
    int (*poll) (void *arg, struct mg_error *err); /* 1: the event has happened, 0: not
                                                      yet, -1: it failed, without a
                                                      failure of the queue.  Must not
                                                      block. */
    void *arg;
    const char *what; /* for queue_waiting(), and for the message of the deadline */
};

/* Block until poll() returns 1: call it again and again in this thread, for 20 us without a pause,
 * then with short sleeps.  -1 with a text: poll()'s own; EIO for the queue's failure, with which
 * the wait ends; ETIMEDOUT at the deadline, after which the queue has failed.
 */
int queue_wait_for (struct queue *queue, const struct queue_wait *wait, struct mg_error *err);

/* Describe the current work of the lane ("nothing on NAME" if idle).  Once the queue has failed,
 * this function reads no work, whose owner may have freed it: the text is that of the failure.  The
 * queue's lock must be held, as it is in describe functions, which may call this.
 */
void queue_lane_describe (const struct queue_lane *lane, char *text, size_t max);

/* The current wait of a thread in queue_wait() or queue_wait_for(), or the wait that failed. */
struct queue_waiting {
    const struct queue_lane *lane; /* NULL: it is in queue_wait_for() */
    double seconds; /* seconds since the wait began */
    char text[200]; /* current work of the lane, or wait->what */
};

/* Report the last wait that is not over.  False if no thread waits for work that is not
 * done.  Any thread may call this.
 */
bool queue_waiting (struct queue *queue, struct queue_waiting *waiting);

/* True if the queue has failed, and queue_waiting() reports a queue_wait_for() that failed with it.
 */
bool queue_failed_waiting (struct queue *queue);

/* Somebody who can say more about a queue_wait_for() that has reached its deadline.  explain()
 * writes what holds up the wait, "" if that is not known; the message ends with it.  Called in the
 * thread that waits, without the queue's lock.
 */
struct queue_explain {
    void (*explain) (void *arg, char *text, size_t max);
    void *arg;
};

/* NULL: nobody. */
void queue_set_explain (struct queue *queue, const struct queue_explain *explain);

/* A function that each queue_wait_for() calls again and again, to find failures that no work
 * reports.  It returns 0, or -1 and a text.  The queue then fails with that text and with what
 * queue_explain says of the wait.  The function never blocks.  It is called in the thread that
 * waits, without the queue's lock.
 */
struct queue_look {
    int (*look) (void *arg, struct mg_error *err);
    void *arg;
};

/* NULL: no function.  Waits until no thread is inside the function that was set before, so that its
 * 'arg' may be freed afterwards.  Not to be called from a look.
 */
void queue_set_look (struct queue *queue, const struct queue_look *look);

/* Functions that the communication thread calls before it polls work, and afterwards,
 * before it waits.  The thread touches device memory only between the two.  Set this
 * before any work is submitted.  NULL: no functions.
 */
struct queue_access {
    void (*begin) (void *arg);
    void (*end) (void *arg);
    void *arg;
};
void queue_set_access (struct queue *queue, const struct queue_access *access);

/* Mark the queue as failed, unless it has failed already. */
void queue_fail (struct queue *queue, const char *text);

/* 0, or -1 and the text if the queue has failed. */
int queue_check (struct queue *queue, struct mg_error *err);

/* After a failure: true if the thread has left the poll functions.  Waits once, a second
 * at most.  If false, memory that the poll functions may use must never be freed.
 */
bool queue_settled (struct queue *queue);

#endif /* LIBCORE_DEVICE_QUEUE_H */
