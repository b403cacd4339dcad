/* staged.c - buffers of the host, copied to the device and back */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/device/device.h"
#include "tests/unit/comm/staged.h"

static struct mg_device *device;
static struct mg_stream *own;

/* One buffer on the device. */
struct stage {
    void *host, *pinned, *memory;
    size_t size;
};

void staged_begin (struct mg_device *d, struct mg_stream *stream)
{
    device = d;
    own = stream;
}

static void end (struct stage *s)
{
    device_free (device, s->memory);
    device_host_free (device, s->pinned);
}

static int begin (struct stage *s, const void *host, size_t size, struct mg_stream *stream,
                  struct mg_error *err)
{
    *s = (struct stage){ .host = (void *)host, .size = size };
    if (size == 0)
        return 0;
    if (!(s->pinned = device_host_alloc (device, size, err))
        || !(s->memory = device_alloc (device, size, err)))
        return -1;
    memcpy (s->pinned, host, size);
    return device_upload (stream, s->memory, s->pinned, size, err);
}

static int back (struct stage *s, struct mg_stream *stream, struct mg_error *err)
{
    if (s->size == 0)
        return mg_stream_synchronize (stream, err);
    if (device_fetch (stream, s->pinned, s->memory, s->size, err) < 0)
        return -1;
    memcpy (s->host, s->pinned, s->size);
    return 0;
}

/* Where 'inside', a part of the buffer on the host, is on the device; another buffer: 'other'. */
static void *within (const struct stage *s, const void *inside, struct stage *other)
{
    size_t at = (size_t)((const char *)inside - (const char *)s->host);

    return at < s->size ? (char *)s->memory + at : other->memory;
}

int staged_all_reduce (struct mg_comm *comm, void *buf, size_t count, enum mg_dtype dtype,
                       enum mg_reduce_op op, struct mg_stream *stream, struct mg_error *err)
{
    struct mg_stream *used = stream ? stream : own;
    struct stage s;
    int rc;

    if (!device_is_apart (device))
        return mg_comm_all_reduce (comm, buf, count, dtype, op, stream, err);
    rc = begin (&s, buf, count * mg_dtype_size (dtype), used, err);
    if (rc == 0)
        rc = mg_comm_all_reduce (comm, s.memory, count, dtype, op, used, err);
    if (rc == 0)
        rc = back (&s, used, err);
    end (&s);
    return rc;
}

int staged_broadcast (struct mg_comm *comm, void *buf, size_t count, enum mg_dtype dtype, int root,
                      struct mg_stream *stream, struct mg_error *err)
{
    struct mg_stream *used = stream ? stream : own;
    struct stage s;
    int rc;

    if (!device_is_apart (device))
        return mg_comm_broadcast (comm, buf, count, dtype, root, stream, err);
    rc = begin (&s, buf, count * mg_dtype_size (dtype), used, err);
    if (rc == 0)
        rc = mg_comm_broadcast (comm, s.memory, count, dtype, root, used, err);
    if (rc == 0)
        rc = back (&s, used, err);
    end (&s);
    return rc;
}

int staged_reduce_scatter (struct mg_comm *comm, const void *send, void *recv, size_t count,
                           enum mg_dtype dtype, enum mg_reduce_op op, struct mg_stream *stream,
                           struct mg_error *err)
{
    struct mg_stream *used = stream ? stream : own;
    size_t bytes = count * mg_dtype_size (dtype);
    struct stage from, to;
    void *out;
    int rc;

    if (!device_is_apart (device))
        return mg_comm_reduce_scatter (comm, send, recv, count, dtype, op, stream, err);
    rc = begin (&from, send, bytes * (size_t)mg_comm_size (comm), used, err);
    if (begin (&to, recv, bytes, used, err) < 0)
        rc = -1;
    out = within (&from, recv, &to);
    if (rc == 0)
        rc = mg_comm_reduce_scatter (comm, from.memory, out, count, dtype, op, used, err);
    if (rc == 0 && bytes > 0 && out != to.memory)
        rc = device_copy (used, to.memory, out, bytes, err);
    if (rc == 0)
        rc = back (&to, used, err);
    end (&from);
    end (&to);
    return rc;
}

int staged_all_gather (struct mg_comm *comm, const void *send, void *recv, size_t count,
                       enum mg_dtype dtype, struct mg_stream *stream, struct mg_error *err)
{
    struct mg_stream *used = stream ? stream : own;
    size_t bytes = count * mg_dtype_size (dtype);
    struct stage from, to;
    int rc;

    if (!device_is_apart (device))
        return mg_comm_all_gather (comm, send, recv, count, dtype, stream, err);
    rc = begin (&from, send, bytes, used, err);
    if (begin (&to, recv, bytes * (size_t)mg_comm_size (comm), used, err) < 0)
        rc = -1;
    if (rc == 0)
        rc = mg_comm_all_gather (comm, within (&to, send, &from), to.memory, count, dtype, used,
                                 err);
    if (rc == 0)
        rc = back (&to, used, err);
    end (&from);
    end (&to);
    return rc;
}

int staged_all_to_all (struct mg_comm *comm, const void *send, void *recv, size_t count,
                       enum mg_dtype dtype, struct mg_stream *stream, struct mg_error *err)
{
    struct mg_stream *used = stream ? stream : own;
    size_t bytes = count * mg_dtype_size (dtype) * (size_t)mg_comm_size (comm);
    struct stage from, to;
    int rc;

    if (!device_is_apart (device))
        return mg_comm_all_to_all (comm, send, recv, count, dtype, stream, err);
    rc = begin (&from, send, bytes, used, err);
    if (begin (&to, recv, bytes, used, err) < 0)
        rc = -1;
    if (rc == 0)
        rc = mg_comm_all_to_all (comm, from.memory, to.memory, count, dtype, used, err);
    if (rc == 0)
        rc = back (&to, used, err);
    end (&from);
    end (&to);
    return rc;
}

/* The bytes up to the end of the last part. */
static size_t span (const struct mg_comm *comm, const size_t *counts, const size_t *offsets,
                    enum mg_dtype dtype)
{
    size_t n = 0;

    for (int r = 0; r < mg_comm_size (comm); r++) {
        if (counts[r] > 0 && offsets[r] + counts[r] > n)
            n = offsets[r] + counts[r];
    }
    return n * mg_dtype_size (dtype);
}

int staged_all_to_allv (struct mg_comm *comm, const void *send, const size_t *send_counts,
                        const size_t *send_offsets, void *recv, const size_t *recv_counts,
                        const size_t *recv_offsets, enum mg_dtype dtype, struct mg_stream *stream,
                        struct mg_error *err)
{
    struct mg_stream *used = stream ? stream : own;
    struct stage from, to;
    int rc;

    if (!device_is_apart (device))
        return mg_comm_all_to_allv (comm, send, send_counts, send_offsets, recv, recv_counts,
                                    recv_offsets, dtype, stream, err);
    rc = begin (&from, send, span (comm, send_counts, send_offsets, dtype), used, err);
    if (begin (&to, recv, span (comm, recv_counts, recv_offsets, dtype), used, err) < 0)
        rc = -1;
    if (rc == 0)
        rc = mg_comm_all_to_allv (comm, from.memory, send_counts, send_offsets, to.memory,
                                  recv_counts, recv_offsets, dtype, used, err);
    if (rc == 0)
        rc = back (&to, used, err);
    end (&from);
    end (&to);
    return rc;
}

int staged_p2p (struct mg_comm *comm, const struct mg_p2p *list, int n, struct mg_stream *stream,
                struct mg_error *err)
{
    enum { MOST = 8 };
    struct mg_stream *used = stream ? stream : own;
    struct stage s[MOST];
    struct mg_p2p there[MOST];
    int rc = 0;

    if (!device_is_apart (device))
        return mg_comm_p2p (comm, list, n, stream, err);
    if (n > MOST)
        return mg_error_set (err, E2BIG, "staged: %d transfers, want %d at most", n, MOST);
    for (int i = 0; i < n; i++) {
        if (begin (&s[i], list[i].buf, list[i].count * mg_dtype_size (list[i].dtype), used, err)
            < 0)
            rc = -1;
        there[i] = list[i];
        there[i].buf = s[i].memory;
    }
    if (rc == 0)
        rc = mg_comm_p2p (comm, there, n, used, err);
    for (int i = 0; i < n; i++) {
        if (rc == 0 && list[i].kind == MG_RECV)
            rc = back (&s[i], used, err);
    }
    if (rc == 0)
        rc = mg_stream_synchronize (used, err);
    for (int i = 0; i < n; i++)
        end (&s[i]);
    return rc;
}
