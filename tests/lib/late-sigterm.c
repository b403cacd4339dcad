/* late-sigterm.c - a SIGTERM that comes while a process leaves
 *
 * For LD_PRELOAD.  The process gets the signal from itself, after main() has returned.
 */

#include <signal.h>
#include <unistd.h>

static void __attribute__ ((destructor)) send_signal (void)
{
    kill (getpid (), SIGTERM);
}
