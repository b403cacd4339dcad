/* prompt - reduce the delay of a thread that runs often and shortly. */
#ifndef LIBCORE_DEVICE_PROMPT_H
#define LIBCORE_DEVICE_PROMPT_H

/* Ask the kernel to let the calling thread run soon after it wakes, beside threads that
 * compute on all CPUs, in exchange for short runs: timers are not delayed, and the thread
 * asks for short time slices (Linux 6.12 and later use this; earlier versions ignore it).
 * The priority does not change.  This is only advice, and cannot fail. Keeps errno.
 */
void prompt_thread (void);

#endif /* LIBCORE_DEVICE_PROMPT_H */
