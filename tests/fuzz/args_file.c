/* args_file.c - files of arguments: words that are quoted are read as the same words
 *
 * Input: the file.
 */

#include <stdlib.h>
#include <string.h>

#include "libcore/args/file.h"
#include "tests/fuzz/fuzz.h"

/* All words, each in quotes that it does not have, or with backslashes; NULL: a word cannot
 * be written, since an end of line is in it.
 */
static char *quote (const struct args_file *f)
{
    size_t room = 1;
    char *text, *to;

    for (int i = 0; i < f->count; i++)
        room += 2 * strlen (f->word[i]) + 3;
    to = text = malloc (room);
    fuzz_check (text, "out of memory");
    for (int i = 0; i < f->count; i++) {
        bool single = i % 2 == 0 && !strchr (f->word[i], '\'');

        if (strpbrk (f->word[i], "\n\r")) {
            free (text);
            return NULL;
        }
        *to++ = single ? '\'' : '"';
        for (const char *c = f->word[i]; *c; c++) {
            if (!single && (*c == '"' || *c == '\\'))
                *to++ = '\\';
            *to++ = *c;
        }
        *to++ = single ? '\'' : '"';
        *to++ = ' ';
    }
    *to = '\0';
    return text;
}

static void run (const uint8_t *data, size_t size)
{
    struct args_file *f, *again;
    char *bytes = fuzz_copy ((struct fuzz_input){ data, size }), *text;

    f = args_file_parse ("file", bytes, size, NULL);
    free (bytes);
    if (!f)
        return;
    for (int i = 0; i < f->count; i++)
        fuzz_check (f->line[i] >= (i ? f->line[i - 1] : 1), "word %d is on line %d", i,
                    f->line[i]);
    fuzz_check (f->count == 0 || !f->word[f->count], "no end");
    text = quote (f);
    if (text) {
        again = args_file_parse ("again", text, strlen (text), NULL);
        fuzz_check (again && again->count == f->count, "another number of words");
        for (int i = 0; i < f->count; i++)
            fuzz_check (strcmp (f->word[i], again->word[i]) == 0, "word %d is another", i);
        args_file_destroy (again);
    }
    free (text);
    args_file_destroy (f);
}

const struct fuzz_target fuzz_args_file = { "args_file", run };
