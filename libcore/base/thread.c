/* thread.c - start a thread that runs the library's code */

#include <errno.h>
#include <stdlib.h>

#include "libcore/base/c_locale.h"
#include "libcore/base/thread.h"

struct start {
    void *(*run) (void *arg);
    void *arg;
};

static void *begin (void *arg)
{
    const struct start start = *(struct start *)arg;

    free (arg);
    c_locale_enter (); // until the thread ends
    return start.run (start.arg);
}

int thread_create (pthread_t *thread, void *(*run) (void *arg), void *arg)
{
    struct start *start = malloc (sizeof (*start));
    int rc;

    if (!start)
        return ENOMEM;
    *start = (struct start){ run, arg };
    rc = pthread_create (thread, NULL, begin, start);
    if (rc != 0)
        free (start);
    return rc;
}
