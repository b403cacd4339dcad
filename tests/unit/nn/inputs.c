/* Lists of inputs: each name once, with the most parts that a layer reads. */

#include <errno.h>
#include <stdio.h>

#include "libcore/nn/inputs.h"
#include "tests/tap/tap.h"

static struct nn_input row (const char *name, enum mg_dtype dtype, int parts, int64_t n)
{
    return (struct nn_input){ .name = name, .parts = parts,
                              .tensor = { .dtype = dtype, .ndims = 1, .shape = { parts * n } } };
}

static void test_names (void)
{
    struct nn_inputs in = { .n = 0 }, which = { .n = 0 }, of;
    const struct nn_input rows[] = {
        row ("tokens", MG_INT32, 1, 6), row ("samples", MG_INT64, 1, 2),
        row ("tokens", MG_INT32, 3, 6), row ("tokens", MG_INT32, 2, 6),
    };
    int data;

    for (size_t i = 0; i < sizeof (rows) / sizeof (rows[0]); i++)
        ok (nn_inputs_add (&in, &rows[i], NULL) == 0, "%s, %d parts", rows[i].name, rows[i].parts);
    is_int (in.n, 2, "each name is there once");
    ok (nn_inputs_find (&in, "tokens")->parts == 3
            && nn_inputs_find (&in, "tokens")->tensor.shape[0] == 18, "with the most parts");
    ok (!nn_inputs_find (&in, "token") && !nn_inputs_data (&in, "token"), "no other name is");
    in.input[0].tensor.data = &data;
    nn_inputs_add (&which, &rows[0], NULL);
    of = nn_inputs_of (&in, &which);
    ok (of.n == 1 && nn_inputs_data (&of, "tokens") == &data, "a part of the list has its memory");
}

static void test_refused (void)
{
    const struct nn_input differ[] = { row ("tokens", MG_INT64, 1, 6),
                                       row ("tokens", MG_INT32, 2, 5) };
    struct nn_input first = row ("tokens", MG_INT32, 1, 6), more = first;
    struct nn_inputs in = { .n = 0 };
    struct mg_error err = { "" };
    char names[NN_MAX_INPUTS][8];

    nn_inputs_add (&in, &first, NULL);
    for (int i = 0; i < 2; i++) {
        errno = 0;
        ok (nn_inputs_add (&in, &differ[i], &err) == -1 && errno == EINVAL, "refused");
        is_str (err.text, "input tokens: layers read it with different types or extents",
                "by name");
    }
    for (int i = 0; i < NN_MAX_INPUTS; i++) {
        snprintf (names[i], sizeof (names[i]), "more%d", i);
        more.name = names[i];
        is_int (nn_inputs_add (&in, &more, &err), i + 1 < NN_MAX_INPUTS ? 0 : -1, "input %d",
                i + 2);
    }
    is_str (err.text, "input more15: a model has 16 inputs at most", "one too many");
    is_int (in.n, NN_MAX_INPUTS, "the list is as it was");
}

int main (void)
{
    test_names ();
    test_refused ();
    return done_testing ();
}
