/* output.c - what ranks print: to files of their own, or line by line with the rank before it
 *
 * Lines of a rank come through a pipe for each stream, and are printed whole, so that lines of
 * several ranks do not mix.
 */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/launch/launch.h"
#include "libcore/file/link.h"

enum {
    LINE_MAX_BYTES = 1 << 16,
    STREAMS = 2,
    WAITING_MAX = 1 << 20, /* bytes that wait to be printed before ranks have to wait */
    WRITE_BYTES = 4096,    /* what a pipe takes at once if it takes anything */
};

struct stream {
    int read_fd, write_fd; /* -1: none */
    char *line;            /* [LINE_MAX_BYTES] the part of a line that was read; NULL: nothing
                            * yet */
    size_t len;
};

/* Standard output or error of this process. */
struct sink {
    char *data; /* what waits to be printed */
    size_t len, capacity;
    bool lost;  /* it cannot be written */
};

struct launch_output {
    struct sink sink[STREAMS];
    const struct launch *launch;
    int width; /* of the largest rank's number */
    struct stream (*stream)[STREAMS]; /* [ranks] */
};

static int make_dir (const char *path, struct mg_error *err)
{
    if (link_check (path, err) < 0)
        return mg_error_prefix (err, "--output");
    if (mkdir (path, 0777) == 0)
        return 0;
    if (errno != EEXIST)
        return mg_error_set (err, errno, "--output %s: %s", path, strerror (errno));
    if (link_check (path, err) < 0) // another user may have made a link meanwhile
        return mg_error_prefix (err, "--output");
    return 0;
}

struct launch_output *launch_output_create (const struct launch *l, struct mg_error *err)
{
    struct launch_output *o = calloc (1, sizeof (*o));
    char number[16];

    if (!o || !(o->stream = calloc ((size_t)l->ranks, sizeof (*o->stream)))) {
        mg_error_set (err, ENOMEM, "out of memory");
        goto error;
    }
    o->launch = l;
    o->width = snprintf (number, sizeof (number), "%d", l->ranks - 1);
    for (int r = 0; r < l->ranks; r++) {
        for (int s = 0; s < STREAMS; s++)
            o->stream[r][s].read_fd = o->stream[r][s].write_fd = -1;
    }
    if (l->output && make_dir (l->output, err) < 0)
        goto error;
    return o;
error:
    launch_output_destroy (o);
    return NULL;
}

static void close_fd (int *fd)
{
    if (*fd >= 0)
        close (*fd);
    *fd = -1;
}

void launch_output_destroy (struct launch_output *o)
{
    if (!o)
        return;
    for (int r = 0; o->stream && r < o->launch->ranks; r++) {
        for (int s = 0; s < STREAMS; s++) {
            close_fd (&o->stream[r][s].read_fd);
            close_fd (&o->stream[r][s].write_fd);
            free (o->stream[r][s].line);
        }
    }
    for (int s = 0; s < STREAMS; s++)
        free (o->sink[s].data);
    free (o->stream);
    free (o);
}

static int open_file (const struct launch_output *o, int rank, int s, struct mg_error *err)
{
    struct stat status;
    char path[4200];
    int fd;

    if (snprintf (path, sizeof (path), "%s/%d.%s", o->launch->output, rank, s == 0 ? "out" : "err")
        >= (int)sizeof (path))
        return mg_error_set (err, ENAMETOOLONG, "--output: the name is too long");
    // a FIFO would keep this command waiting for a reader
    fd = open (path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
    if (fd < 0)
        return mg_error_set (err, errno, "%s: %s", path, strerror (errno));
    if (fstat (fd, &status) < 0 || !S_ISREG (status.st_mode)) {
        close (fd);
        return mg_error_set (err, EINVAL, "%s: there is something that is not a regular file",
                             path);
    }
    fcntl (fd, F_SETFL, 0); // the rank's program gets it
    return fd;
}

int launch_output_open (struct launch_output *o, int rank, struct mg_error *err)
{
    for (int s = 0; s < STREAMS; s++) {
        struct stream *stream = &o->stream[rank][s];
        int fds[2];

        if (o->launch->output) {
            if ((stream->write_fd = open_file (o, rank, s, err)) < 0)
                return -1;
        } else if (o->launch->label) {
            if (pipe2 (fds, O_CLOEXEC) < 0)
                return mg_error_set (err, errno, "no pipe for rank %d: %s", rank,
                                     strerror (errno));
            stream->read_fd = fds[0];
            stream->write_fd = fds[1];
            fcntl (fds[0], F_SETFL, O_NONBLOCK);
        }
    }
    return 0;
}

int launch_output_attach (struct launch_output *o, int rank)
{
    for (int s = 0; s < STREAMS; s++) {
        int fd = o->stream[rank][s].write_fd;

        if (fd >= 0 && dup2 (fd, 1 + s) < 0)
            return -1;
    }
    return 0;
}

void launch_output_started (struct launch_output *o, int rank)
{
    for (int s = 0; s < STREAMS; s++)
        close_fd (&o->stream[rank][s].write_fd);
}

/* --- what waits to be printed --- */

static void append (struct sink *sink, const void *data, size_t len)
{
    if (sink->len + len > sink->capacity) {
        size_t capacity = 2 * (sink->len + len);
        char *more = realloc (sink->data, capacity);

        if (!more)
            return; // a line less
        sink->data = more;
        sink->capacity = capacity;
    }
    memcpy (sink->data + sink->len, data, len);
    sink->len += len;
}

/* Print as much as can be printed without waiting.  What cannot be written is said once, and lost.
 */
static void print_some (struct sink *sink, int fd)
{
    struct pollfd p = { .fd = fd, .events = POLLOUT };
    size_t done = 0;

    while (done < sink->len && poll (&p, 1, 0) > 0) {
        size_t n = sink->len - done < WRITE_BYTES ? sink->len - done : WRITE_BYTES;
        ssize_t written = sink->lost ? (ssize_t)n : write (fd, sink->data + done, n);

        if (written < 0 && (errno == EAGAIN || errno == EINTR))
            break;
        if (written < 0) {
            sink->lost = true;
            if (fd == 1)
                fprintf (stderr, "megatron launch: standard output cannot be written: %s\n",
                         strerror (errno));
            continue;
        }
        done += (size_t)written;
    }
    memmove (sink->data, sink->data + done, sink->len -= done);
}

bool launch_output_failed (const struct launch_output *o)
{
    return o->sink[0].lost;
}

bool launch_output_pending (const struct launch_output *o)
{
    bool pending = o->sink[0].len + o->sink[1].len > 0;

    for (int r = 0; r < o->launch->ranks; r++) {
        for (int s = 0; s < STREAMS; s++)
            pending |= o->stream[r][s].read_fd >= 0;
    }
    return pending;
}

/* --- lines --- */

static bool is_readable (const struct launch_output *o, int rank, int s)
{
    return o->stream[rank][s].read_fd >= 0 && o->sink[s].len < WAITING_MAX;
}

int launch_output_polls (const struct launch_output *o, struct pollfd *polls)
{
    int n = 0;

    for (int s = 0; s < STREAMS; s++) {
        if (o->sink[s].len > 0)
            polls[n++] = (struct pollfd){ .fd = 1 + s, .events = POLLOUT };
    }
    for (int r = 0; r < o->launch->ranks; r++) {
        for (int s = 0; s < STREAMS; s++) {
            if (is_readable (o, r, s))
                polls[n++] = (struct pollfd){ .fd = o->stream[r][s].read_fd, .events = POLLIN };
        }
    }
    return n;
}

static void print_line (struct launch_output *o, int rank, int s, const char *line, size_t len)
{
    char label[24];
    int n = snprintf (label, sizeof (label), "%*d: ", o->width, rank);

    append (&o->sink[s], label, (size_t)n);
    append (&o->sink[s], line, len);
    append (&o->sink[s], "\n", 1);
}

/* Print the whole lines of what has come, and keep the rest. */
static void print_lines (struct launch_output *o, int rank, int s, bool last)
{
    struct stream *stream = &o->stream[rank][s];
    char *at = stream->line, *end = at + stream->len, *newline;

    while (at < end && (newline = memchr (at, '\n', (size_t)(end - at)))) {
        print_line (o, rank, s, at, (size_t)(newline - at));
        at = newline + 1;
    }
    if (at < end && (last || (size_t)(end - at) == LINE_MAX_BYTES)) { // or it is too long
        print_line (o, rank, s, at, (size_t)(end - at));
        at = end;
    }
    stream->len = (size_t)(end - at);
    memmove (stream->line, at, stream->len);
}

static void copy_stream (struct launch_output *o, int rank, int s, bool last)
{
    struct stream *stream = &o->stream[rank][s];

    if (!stream->line && !(stream->line = malloc (LINE_MAX_BYTES)))
        return; // it is tried again
    while (is_readable (o, rank, s)) {
        ssize_t got = read (stream->read_fd, stream->line + stream->len,
                            LINE_MAX_BYTES - stream->len);

        if (got < 0 && errno == EINTR)
            continue;
        if (got > 0) {
            stream->len += (size_t)got;
            print_lines (o, rank, s, false);
            continue;
        }
        if (got == 0 || last) {
            print_lines (o, rank, s, true);
            close_fd (&stream->read_fd);
        }
        return;
    }
}

void launch_output_copy (struct launch_output *o, bool last)
{
    for (int r = 0; r < o->launch->ranks; r++) {
        for (int s = 0; s < STREAMS; s++) {
            if (is_readable (o, r, s))
                copy_stream (o, r, s, last);
        }
    }
    for (int s = 0; s < STREAMS; s++)
        print_some (&o->sink[s], 1 + s);
}
