/* exchange.c - small agreements between ranks
 *
 * Ranks agree on failures of one rank (no memory, a file that cannot be written) before
 * another rank sends it a message, since a message that is never received would block its
 * sender.
 */

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/comm/exchange.h"

int exchange_result (struct mg_comm *comm, int rc, struct mg_error *err)
{
    struct {
        int32_t errnum;
        char text[MG_ERROR_MAX];
    } what = { .errnum = errno };
    int64_t failed = rc < 0 ? mg_comm_rank (comm) : INT64_MAX; /* the lowest one */

    if (rc < 0)
        memcpy (what.text, err->text, sizeof (what.text));
    if (mg_comm_all_reduce (comm, &failed, 1, MG_INT64, MG_MIN, NULL, err) < 0)
        return -1;
    if (failed == INT64_MAX)
        return 0;
    if (mg_comm_broadcast (comm, &what, sizeof (what), MG_UINT8, (int)failed, NULL, err)
        < 0)
        return -1;
    what.text[MG_ERROR_MAX - 1] = '\0';
    return mg_error_set (err, what.errnum ? what.errnum : EIO, "%s", what.text);
}

int exchange_agree (struct mg_comm *comm, int rc, struct mg_error *err)
{
    if (rc < 0 && mg_comm_rank (comm) > 0)
        mg_error_prefix (err, "rank %d", mg_comm_rank (comm));
    return exchange_result (comm, rc, err);
}

int exchange_send (struct mg_comm *comm, int peer, const void *data, size_t len,
                   struct mg_error *err)
{
    struct mg_p2p p = { MG_SEND, peer, (void *)data, len, MG_UINT8 };

    return len ? mg_comm_p2p (comm, &p, 1, NULL, err) : 0;
}

int exchange_recv (struct mg_comm *comm, int peer, void *data, size_t len,
                   struct mg_error *err)
{
    struct mg_p2p p = { MG_RECV, peer, data, len, MG_UINT8 };

    return len ? mg_comm_p2p (comm, &p, 1, NULL, err) : 0;
}

/* Rank 0's side of a gather; 'buf' holds the longest message. */
static int take_all (struct mg_comm *comm, const void *own, size_t own_len, char *buf,
                     int64_t max, exchange_take_f take, void *arg, struct mg_error *err)
{
    int rc = take (arg, 0, own, own_len, err);
    int errnum = errno;

    for (int r = 1; r < mg_comm_size (comm); r++) {
        struct mg_error why = { .text = "the length of a message makes no sense" };
        int64_t len;

        if (exchange_recv (comm, r, &len, sizeof (len), &why) < 0
            || len < 0 || len > max || exchange_recv (comm, r, buf, (size_t)len, &why) < 0)
            return mg_error_set (err, EIO, "%s", why.text);
        if (rc == 0) { /* otherwise the bytes are received and dropped */
            rc = take (arg, r, buf, (size_t)len, err);
            errnum = errno;
        }
    }
    errno = errnum;
    return rc;
}

int exchange_gather (struct mg_comm *comm, const void *data, size_t len,
                     exchange_take_f take, void *arg, struct mg_error *err)
{
    const bool root = mg_comm_rank (comm) == 0;
    int64_t mine = (int64_t)len, max = mine;
    char *buf = NULL;
    int rc = 0;

    if (mg_comm_all_reduce (comm, &max, 1, MG_INT64, MG_MAX, NULL, err) < 0)
        return -1;
    if (root && !(buf = malloc ((size_t)max + 1)))
        rc = mg_error_set (err, ENOMEM, "out of memory for %jd bytes of another rank",
                           (intmax_t)max);
    if (exchange_result (comm, rc, err) < 0) {
        free (buf);
        return -1;
    }
    if (root)
        rc = take_all (comm, data, len, buf, max, take, arg, err);
    else if ((rc = exchange_send (comm, 0, &mine, sizeof (mine), err)) == 0)
        rc = exchange_send (comm, 0, data, len, err);
    rc = exchange_result (comm, rc, err);
    free (buf);
    return rc;
}

int exchange_broadcast (struct mg_comm *comm, char **data, size_t *len,
                        struct mg_error *err)
{
    const bool root = mg_comm_rank (comm) == 0;
    int64_t size = root ? (int64_t)*len : 0;
    char *buf = root ? *data : NULL;
    int rc = 0;

    if (mg_comm_broadcast (comm, &size, 1, MG_INT64, 0, NULL, err) < 0)
        return -1;
    if (!root && !(buf = malloc ((size_t)size + 1)))
        rc = mg_error_set (err, ENOMEM, "out of memory for %jd bytes of rank 0",
                           (intmax_t)size);
    rc = exchange_result (comm, rc, err);
    if (rc == 0 && size > 0)
        rc = mg_comm_broadcast (comm, buf, (size_t)size, MG_UINT8, 0, NULL, err);
    if (root)
        return rc;
    if (rc < 0) {
        free (buf);
        return -1;
    }
    buf[size] = '\0';
    *data = buf;
    *len = (size_t)size;
    return 0;
}
