/* prompt.c - test that asking for promptness changes what it says, and nothing else */

#include <errno.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "libcore/device/prompt.h"
#include "tests/tap/tap.h"

int main (void)
{
    int policy = sched_getscheduler (0), nice_before;

    setpriority (PRIO_PROCESS, 0, 3);
    nice_before = getpriority (PRIO_PROCESS, 0);
    errno = 42;
    prompt_thread ();
    is_int (errno, 42, "errno is kept");
    is_int (prctl (PR_GET_TIMERSLACK, 0, 0, 0, 0), 1000, "timers are not put off");
    is_int (getpriority (PRIO_PROCESS, 0), nice_before, "the priority stays %d",
            nice_before);
    is_int (sched_getscheduler (0), policy, "the policy stays");
    return done_testing ();
}
