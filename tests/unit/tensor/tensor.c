/* tensor - sizes, addresses, memory from an arena */

#include <string.h>

#include "libcore/tensor/tensor.h"
#include "tests/tap/tap.h"

int main (void)
{
    _Alignas (ARENA_ALIGN) char memory[512];
    struct tensor t = { .dtype = MG_BFLOAT16, .ndims = 3, .shape = { 4, 3, 5 }, .live = 2 };
    struct tensor none = { .dtype = MG_FLOAT32 };
    struct arena a;

    is_int (tensor_capacity (&t), 60, "capacity");
    is_int (tensor_count (&t), 30, "rows in use");
    is_int (tensor_capacity (&none), 0, "no dimensions, no elements");
    ok (tensor_at (&t, 0) && tensor_at (&t, 0) == tensor_at (&t, 59),
        "without memory all elements have the address of nobody's byte");
    ok (tensor_address (NULL) == tensor_at (&t, 0) && tensor_address (memory) == memory,
        "as other data without memory");
    arena_init (&a, NULL, 0);
    tensor_carve (&t, &a);
    is_int (a.used, 128, "a plan counts the capacity");
    ok (!t.data, "and gives no memory");
    arena_init (&a, memory, sizeof (memory));
    tensor_carve (&t, &a);
    ok (t.data == memory, "memory");
    ok ((char *)tensor_at (&t, 7) == memory + 14, "the address of an element");
    tensor_carve (&none, &a);
    ok (!none.data && a.used == 128, "nothing takes nothing");
    return done_testing ();
}
