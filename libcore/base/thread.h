/* thread - start a thread that runs the library's code. */
#ifndef LIBCORE_BASE_THREAD_H
#define LIBCORE_BASE_THREAD_H

#include <pthread.h>

/* Start run (arg) in a new thread, which is in the C locale (c_locale.h); a new thread does not
 * inherit the locale of its creator.  The new thread inherits the signal mask.  Returns 0 or the
 * number of an error.
 */
int thread_create (pthread_t *thread, void *(*run) (void *arg), void *arg);

#endif /* LIBCORE_BASE_THREAD_H */
