/* flush.c - denormals are flushed, modes come back, and conversions are the same in both */

#include <fenv.h>
#include <float.h>
#include <math.h>

#include "libcore/base/float8.h"
#include "libcore/base/flush.h"
#include "tests/tap/tap.h"

/* What the processor makes of numbers that the compiler does not know. */
static float product (float x, float y)
{
    volatile float a = x, b = y;

    return a * b;
}

static double product_d (double x, double y)
{
    volatile double a = x, b = y;

    return a * b;
}

/* Without what x86's MXCSR notes of exceptions that would have trapped. */
static uint64_t control (uint64_t mode)
{
    return mode & ~0x3full;
}

static void test_mode (void)
{
    uint64_t before = control (flush_mode ());

    ok (product (FLT_MIN, 0.5f) > 0 && product (0x1p-149f, 4) > 0, "a program has denormals");
    ok (control (flush_begin ()) == before && control (flush_mode ()) != before,
        "the mode before is returned");
    ok (product (FLT_MIN, 0.5f) == 0 && signbit (product (-FLT_MIN, 0.5f)),
        "denormal results are 0, with their sign");
    ok (product (0x1p-149f, 0x1p60f) == 0, "denormal operands count as 0");
    ok (product (FLT_MIN, 2) == 2 * FLT_MIN, "normal numbers are as they were");
    ok (product_d (DBL_MIN, 0.5) == 0, "the same in double");
    flush_end (before);
    ok (control (flush_mode ()) == before && product (FLT_MIN, 0.5f) > 0,
        "then all is as before");
}

/* A caller that rounds upwards and wants traps has neither in between, and both again. */
static void test_caller (void)
{
    uint64_t mine, before = control (flush_mode ());
    float inside;

    fesetround (FE_UPWARD);
    feenableexcept (FE_OVERFLOW);
    mine = flush_begin ();
    inside = product (1 + FLT_EPSILON, 1 + FLT_EPSILON) + product (FLT_MAX, 0);
    is_int (isinf (product (FLT_MAX, FLT_MAX)) != 0, 1, "nothing traps");
    flush_end (mine);
    ok (inside == 1 + 2 * FLT_EPSILON, "rounding is to nearest");
    ok (flush_mode () == mine && control (mine) != before, "the caller's mode is back");
    ok (product (1 + FLT_EPSILON, 1 + FLT_EPSILON) > 1 + 2 * FLT_EPSILON, "its rounding");
    ok (fegetexcept () == FE_OVERFLOW, "and its traps");
    fedisableexcept (FE_ALL_EXCEPT);
    feclearexcept (FE_ALL_EXCEPT);
    fesetround (FE_TONEAREST);
}

/* --- conversions --- */

/* Never part of their callers, since a compiler takes arithmetic past a change of the mode. */
#define APART __attribute__ ((noinline))

APART static void widen_all (uint32_t *out)
{
    for (uint32_t i = 0; i < 65536; i++) {
        out[3 * i] = half_bits_of (half_from_fp16 ((uint16_t)i));
        out[3 * i + 1] = half_bits_of (half_from_bf16 ((uint16_t)i));
        out[3 * i + 2] = half_bits_of (float8_from_e4m3 ((uint8_t)i));
    }
}

/* Every upper half of a float with 'lower' below it. */
APART static void narrow_all (uint32_t lower, uint32_t *out)
{
    for (uint32_t i = 0; i < 65536; i++) {
        float x = half_float_of (i << 16 | lower);

        out[3 * i] = half_to_fp16 (x);
        out[3 * i + 1] = half_to_bf16 (x);
        out[3 * i + 2] = float8_to_e4m3 (x);
    }
}

static uint32_t plain[3 * 65536], flushed[3 * 65536];

static void add_differences (int count[3])
{
    for (int i = 0; i < 3 * 65536; i++)
        count[i % 3] += plain[i] != flushed[i];
}

static void test_codes (void)
{
    int wrong[3] = { 0 };
    uint64_t mode;

    widen_all (plain);
    mode = flush_begin ();
    widen_all (flushed);
    flush_end (mode);
    add_differences (wrong);
    is_int (wrong[0], 0, "all of float16 to float");
    is_int (wrong[1], 0, "all of bfloat16");
    is_int (wrong[2], 0, "all of float8");
}

/* Lower halves are at and around what is rounded off in any type. */
static void test_floats (void)
{
    static const uint32_t lower[] = { 0,      1,      0x07ff, 0x0800, 0x0801, 0x0fff, 0x1000,
                                      0x1001, 0x1fff, 0x2000, 0x3000, 0x7fff, 0x8000, 0x8001,
                                      0xefff, 0xf000, 0xf001, 0xffff };
    int wrong[3] = { 0 };
    uint64_t mode;

    for (size_t i = 0; i < sizeof (lower) / sizeof (lower[0]); i++) {
        narrow_all (lower[i], plain);
        mode = flush_begin ();
        narrow_all (lower[i], flushed);
        flush_end (mode);
        add_differences (wrong);
    }
    is_int (wrong[0], 0, "floats to float16");
    is_int (wrong[1], 0, "to bfloat16");
    is_int (wrong[2], 0, "to float8");
}

int main (void)
{
#if defined(__x86_64__) || defined(__aarch64__)
    test_mode ();
    test_caller ();
#else
    skip (2, "this processor's mode is not known");
#endif
    test_codes ();
    test_floats ();
    return done_testing ();
}
