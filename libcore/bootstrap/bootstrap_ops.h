/* bootstrap_ops - the functions that a bootstrap backend provides.  bootstrap.h has their
 * contracts. */
#ifndef LIBCORE_BOOTSTRAP_BOOTSTRAP_OPS_H
#define LIBCORE_BOOTSTRAP_BOOTSTRAP_OPS_H

#include "libcore/bootstrap/bootstrap.h"

/* The library's functions that a backend in a module may call. New members go to the
 * end. */
struct bootstrap_host {
    int (*error_set) (struct mg_error *err, int errnum, const char *fmt, ...)
        __attribute__ ((format (printf, 3, 4)));
};

/* Every slot is required. 'impl' is what create() returned. */
struct bootstrap_ops {
    const char *name;

    /* Connect, and fill in every member of 'info' but 'backend'. NULL and a text on
     * failure. */
    void *(*create) (const struct bootstrap_host *host, double timeout,
                     struct bootstrap_info *info, struct mg_error *err);

    /* After a failure of a collective call this must not block. Keeps errno. */
    void (*destroy) (void *impl);

    /* 'len' is at least 1, and 'data' is not NULL.  ETIMEDOUT: not all ranks have come;
     * ECONNRESET: a rank may have ended.
     */
    int (*exchange) (void *impl, const void *data, size_t len, struct mg_error *err);

    /* rank is in range and exchange() has succeeded. */
    int (*peer_data) (void *impl, int rank, void *data, size_t max, size_t *len,
                      struct mg_error *err);

    /* rank is in range. */
    int (*task_of) (void *impl, int rank);

    /* The errors are those of exchange(). */
    int (*barrier) (void *impl, struct mg_error *err);

    /* code is 1-255. */
    void (*abort) (void *impl, int code) __attribute__ ((noreturn));
};

extern const struct bootstrap_ops boot_self_ops, boot_plan_ops, boot_env_ops;

#endif /* LIBCORE_BOOTSTRAP_BOOTSTRAP_OPS_H */
