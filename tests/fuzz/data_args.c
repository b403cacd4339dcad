/* data_args.c - files that name data: words that are written as lists are read as the same words
 *
 * Input: the file.
 */

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "libcore/args/data_args.h"
#include "tests/fuzz/fuzz.h"

/* The same as a JSON text, which the caller frees. */
static char *write_lists (const struct data_args *data)
{
    json_t *root = json_object ();
    char *text;

    for (int i = 0; i < SPLIT_NUM_PARTS; i++) {
        const struct args_file *part = data->part[i];
        json_t *list = part ? json_array () : json_null ();

        for (int k = 0; part && k < part->count; k++)
            json_array_append_new (list, json_string (part->word[k]));
        json_object_set_new (root, split_part_name ((enum split_part)i), list);
    }
    text = json_dumps (root, 0);
    fuzz_check (text, "no text");
    json_decref (root);
    return text;
}

static void run (const uint8_t *bytes, size_t size)
{
    char *copy = fuzz_copy ((struct fuzz_input){ bytes, size }), *text;
    struct data_args *data = data_args_parse ("file", copy, size, NULL), *again;

    free (copy);
    if (!data)
        return;
    text = write_lists (data);
    again = data_args_parse ("again", text, strlen (text), NULL);
    fuzz_check (again, "it is not read again");
    for (int i = 0; i < SPLIT_NUM_PARTS; i++) {
        const struct args_file *a = data->part[i], *b = again->part[i];

        fuzz_check (!a == !b, "part %d is another", i);
        fuzz_check (!a || (a->count > 0 && a->count == b->count && !a->word[a->count]),
                    "part %d has other words", i);
        for (int k = 0; a && k < a->count; k++)
            fuzz_check (strcmp (a->word[k], b->word[k]) == 0, "word %d is another", k);
    }
    free (text);
    data_args_destroy (again);
    data_args_destroy (data);
}

const struct fuzz_target fuzz_data_args = { "data_args", run };
