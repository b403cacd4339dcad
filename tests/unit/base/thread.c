/* thread - threads of the library are in the C locale, whatever their creator's is */

#include <locale.h>
#include <pthread.h>
#include <signal.h>

#include "libcore/base/c_locale.h"
#include "libcore/base/thread.h"
#include "tests/tap/tap.h"

struct seen {
    const void *arg;
    locale_t locale;
    sigset_t mask;
};

static void *look (void *arg)
{
    struct seen *seen = arg;

    seen->arg = arg;
    seen->locale = uselocale ((locale_t)0);
    pthread_sigmask (SIG_BLOCK, NULL, &seen->mask);
    return &seen->mask;
}

int main (void)
{
    struct seen seen = { NULL };
    pthread_t thread;
    sigset_t mask;
    void *result;
    locale_t c = c_locale_enter (), here = uselocale ((locale_t)0);

    c_locale_leave (c);
    sigemptyset (&mask);
    sigaddset (&mask, SIGUSR1);
    pthread_sigmask (SIG_BLOCK, &mask, NULL);
    is_int (thread_create (&thread, look, &seen), 0, "a thread starts");
    is_int (pthread_join (thread, &result), 0, "and ends");
    ok (seen.arg == &seen && result == &seen.mask, "it has its argument, and its result is known");
    ok (seen.locale == here && uselocale ((locale_t)0) == LC_GLOBAL_LOCALE,
        "it is in the C locale, and its creator is not");
    ok (sigismember (&seen.mask, SIGUSR1) == 1 && sigismember (&seen.mask, SIGUSR2) == 0,
        "it has its creator's signal mask");
    return done_testing ();
}
