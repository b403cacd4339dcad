/* flush - set a thread's floating-point mode so that denormals are flushed to 0.
 *
 * A denormal is a number nearer to 0 than the type's least normal one, 2^-126 of float32 and
 * 2^-1022 of double.  In this mode a denormal result becomes 0 and a denormal operand counts
 * as 0, both with their sign.  Without this mode, a number that decays stays at the least
 * denormal: 0.9 of one last place is rounded to one last place.  Processors compute many
 * times slower with denormals.  The mode also sets rounding to nearest even, and masks
 * all exceptions.
 *
 * Operations that only move bits (loads, stores, conversions of half.h and float8.h, comparisons
 * of bits) do not depend on the mode.
 *
 * x86-64: FTZ and DAZ of MXCSR.  AArch64: FZ of FPCR.  Elsewhere nothing changes.
 */
#ifndef LIBCORE_BASE_FLUSH_H
#define LIBCORE_BASE_FLUSH_H

#include <stdint.h>

/* Returns the mode of the calling thread. */
static inline uint64_t flush_mode (void)
{
#if defined(__x86_64__)
    uint32_t mode;

    __asm__ volatile ("stmxcsr %0" : "=m"(mode) : : "memory");
    return mode;
#elif defined(__aarch64__)
    uint64_t mode;

    __asm__ volatile ("mrs %0, fpcr" : "=r"(mode) : : "memory");
    return mode;
#else
    return 0;
#endif
}

/* Restore a mode that flush_mode() or flush_begin() returned on the calling thread. */
static inline void flush_end (uint64_t mode)
{
#if defined(__x86_64__)
    uint32_t word = (uint32_t)mode;

    __asm__ volatile ("ldmxcsr %0" : : "m"(word) : "memory");
#elif defined(__aarch64__)
    __asm__ volatile ("msr fpcr, %0" : : "r"(mode) : "memory");
#else
    (void)mode;
#endif
}

/* Flush in the calling thread from now on.  Returns the mode that the thread had. */
static inline uint64_t flush_begin (void)
{
    uint64_t before = flush_mode ();

#if defined(__x86_64__)
    flush_end (0x1f80 | 0x8000 | 0x0040); // exceptions masked, FTZ, DAZ
#elif defined(__aarch64__)
    flush_end (1 << 24);
#endif
    return before;
}

#endif /* LIBCORE_BASE_FLUSH_H */
