/* cleanup.c - signals that end a command */

#include <signal.h>
#include <stddef.h>

#include "cmd/cleanup.h"
#include "libcore/checkpoint/leftover.h"

/* SA_RESETHAND has brought back the default action. */
static void clean_up (int number)
{
    leftover_remove_open ();
    raise (number);
}

void cleanup_watch (void)
{
    static const int signals[] = { SIGHUP, SIGINT, SIGTERM };
    struct sigaction action = { .sa_handler = clean_up, .sa_flags = SA_RESETHAND }, before;

    sigemptyset (&action.sa_mask);
    for (size_t i = 0; i < sizeof (signals) / sizeof (signals[0]); i++) {
        if (sigaction (signals[i], NULL, &before) == 0 && before.sa_handler == SIG_DFL)
            sigaction (signals[i], &action, NULL);
    }
}
