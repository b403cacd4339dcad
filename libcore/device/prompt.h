/* prompt - a thread that runs for a moment, often, and should not have to wait for it. */
#ifndef LIBCORE_DEVICE_PROMPT_H
#define LIBCORE_DEVICE_PROMPT_H

/* Ask the kernel to let the calling thread run soon after it wakes, beside threads that
 * compute on all CPUs, at the price of running only shortly: timers are not put off, and
 * the thread asks for short slices (Linux 6.12 heeds that; earlier ones do not mind).
 * Its priority stays what it is.  Only advice: nothing can fail. Keeps errno.
 */
void prompt_thread (void);

#endif /* LIBCORE_DEVICE_PROMPT_H */
