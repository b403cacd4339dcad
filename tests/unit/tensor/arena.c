/* Carving: what is planned is what is taken, and nothing beyond it. */

#include <stdint.h>

#include "libcore/tensor/arena.h"
#include "tests/tap/tap.h"

static _Alignas (ARENA_ALIGN) char memory[10 * ARENA_ALIGN];

static void test_plan (void)
{
    struct arena plan, real;
    const struct {
        int64_t count;
        size_t size, used; /* used: afterwards */
    } takes[] = {
        { 1, 1, 64 },  { 0, 8, 64 },   { 16, 4, 128 }, { 17, 4, 256 },
        { 8, 8, 320 }, { 63, 1, 384 }, { 65, 1, 512 },
    };

    arena_init (&plan, NULL, 0);
    arena_init (&real, memory, 512);
    for (size_t i = 0; i < sizeof (takes) / sizeof (takes[0]); i++) {
        size_t before = real.used;
        char *p = arena_carve (&real, takes[i].count, takes[i].size);

        ok (arena_carve (&plan, takes[i].count, takes[i].size) == NULL, "a plan has no memory");
        is_int (plan.used, takes[i].used, "planned after %d of %zu", (int)takes[i].count,
                takes[i].size);
        is_int (real.used, takes[i].used, "and taken");
        ok (takes[i].count == 0 ? p == NULL : p == memory + before, "right behind the last");
    }
    ok (!plan.overflow && !real.overflow, "it fits to the byte");
    ok (arena_carve (&real, 1, 1) == NULL && real.overflow && real.used == 512,
        "one byte more does not");
}

static void test_limits (void)
{
    const struct {
        int64_t count;
        size_t size;
        bool fits;
    } takes[] = {
        { -1, 4, false },
        { INT64_MIN, 1, false },
        { INT64_MAX, 4, false },
        { INT64_MAX, 1, true },
        { (int64_t)(SIZE_MAX / 8), 8, false }, /* no room for the alignment */
        { (int64_t)(SIZE_MAX / 64 - 1), 64, true },
    };
    struct arena a;

    for (size_t i = 0; i < sizeof (takes) / sizeof (takes[0]); i++) {
        arena_init (&a, NULL, 0);
        arena_carve (&a, takes[i].count, takes[i].size);
        ok (a.overflow == !takes[i].fits, "%lld of %zu bytes: %s", (long long)takes[i].count,
            takes[i].size, takes[i].fits ? "planned" : "refused");
        is_int (a.used == 0, !takes[i].fits, "and %s", takes[i].fits ? "counted" : "not counted");
    }
    arena_carve (&a, INT64_MAX, 2);
    ok (a.overflow, "a sum that overflows is refused");
    ok (arena_carve (&a, 1, 1) == NULL && a.overflow, "and remembered");
    for (size_t size = 127; size < 130; size++) {
        arena_init (&a, memory, 2 * ARENA_ALIGN);
        ok ((arena_carve (&a, (int64_t)size, 1) != NULL) == (size <= 128), "%zu of 128 bytes",
            size);
    }
}

/* The parts of a repetition take the bytes that they take one by one. */
static void test_repeat (void)
{
    struct arena a, b;

    arena_init (&a, NULL, 0);
    arena_init (&b, NULL, 0);
    arena_carve (&a, 3, 4);
    arena_carve (&b, 3, 4);
    for (int i = 0; i < 5; i++) {
        arena_carve (&a, 100, 1);
        arena_carve (&a, 7, 8);
    }
    arena_carve (&b, 100, 1);
    arena_carve (&b, 7, 8);
    arena_repeat (&b, ARENA_ALIGN, 4);
    is_int ((long long)b.used, (long long)a.used, "parts repeated 4 times");
    arena_repeat (&b, ARENA_ALIGN, 0);
    arena_repeat (&b, ARENA_ALIGN, -1);
    is_int ((long long)b.used, (long long)a.used, "or not at all");
    arena_carve (&b, INT64_MAX / 2, 1);
    arena_repeat (&b, ARENA_ALIGN, INT32_MAX);
    ok (b.overflow, "a repetition that overflows is refused");
}

int main (void)
{
    test_plan ();
    test_repeat ();
    test_limits ();
    return done_testing ();
}
