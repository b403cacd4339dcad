/* prompt.c - timer slack and scheduling slice of a thread */

#include <errno.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "libcore/device/prompt.h"

enum { SLACK_NS = 1000, SLICE_NS = 100000 };

/* The first version of the kernel's struct sched_attr, which has no header that does not
 * clash with <sched.h>.
 */
struct attr {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime; /* of an ordinary thread: its slice */
    uint64_t deadline, period;
};

void prompt_thread (void)
{
    struct attr attr = { .size = 0 };
    int saved_errno = errno;

    prctl (PR_SET_TIMERSLACK, SLACK_NS, 0, 0, 0);
#ifdef SYS_sched_setattr
    // values that stay must be passed back unchanged
    if (syscall (SYS_sched_getattr, 0, &attr, sizeof (attr), 0) == 0) {
        attr.runtime = SLICE_NS;
        syscall (SYS_sched_setattr, 0, &attr, 0);
    }
#endif
    errno = saved_errno;
}
