/* Stop strings: pieces of them, the first of several, and where a search goes on. */

#include <string.h>

#include "libcore/infer/stop_text.h"
#include "tests/tap/tap.h"

static char abc[] = "abc", bb[] = "bb", zero[] = "\0x";
static const struct text_buffer stops[] = { { abc, 3, 0 }, { bb, 2, 0 }, { zero, 2, 0 } };

/* Append pieces, of 'step' bytes each, until the text is cut: its size, or -1. */
static int grow (const char *text, size_t size, size_t step, size_t from, int num_stops)
{
    struct text_buffer t = { NULL, 0, 0 };
    size_t searched = from;
    int cut = -1;

    for (size_t at = 0; cut < 0 && at < size; at += step) {
        text_buffer_append (&t, text + at, size - at < step ? size - at : step, NULL);
        if (stop_text_cut (&t, &searched, stops, num_stops))
            cut = (int)t.size;
    }
    text_buffer_clear (&t);
    return cut;
}

int main (void)
{
    struct text_buffer empty = { NULL, 0, 0 };
    size_t searched = 0;

    for (size_t step = 1; step <= 8; step++) {
        is_int (grow ("xabababc", 8, step, 0, 1), 5, "pieces of %zu: a string", step);
        is_int (grow ("abcabc", 6, step, 1, 1), 3, "pieces of %zu: none before the start", step);
        is_int (grow ("xa\0x", 4, step, 0, 3), 2, "pieces of %zu: a zero byte", step);
        is_int (grow ("ababab", 6, step, 0, 2), -1, "pieces of %zu: none", step);
    }
    is_int (grow ("xbbabc", 6, 6, 0, 2), 1, "the first one of several");
    is_int (grow ("xabcbb", 6, 6, 0, 2), 1, "also if another row has it");
    ok (!stop_text_cut (&empty, &searched, stops, 3) && searched == 0, "an empty text");
    ok (!stop_text_cut (&empty, &searched, NULL, 0), "no strings");
    return done_testing ();
}
