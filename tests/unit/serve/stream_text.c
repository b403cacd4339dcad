/* Texts that grow: characters in pieces, stop strings in pieces, an echoed prompt. */

#include <string.h>

#include "libcore/serve/stream_text.h"
#include "tests/tap/tap.h"

static char abc[] = "abc", bb[] = "bb", accent[] = "\xc3\xa9";
static const struct text_buffer stops[] = { { abc, 3, 0 }, { bb, 2, 0 }, { accent, 2, 0 } };

/* Append pieces to a new text: the bytes that may be sent after each one, in 'ready'. */
static struct stream_text grow (const char *const pieces[], int n, int num_stops, size_t *ready)
{
    struct stream_text t = { .from = 0 };

    for (int i = 0; i < n && !t.stopped; i++) {
        stream_text_append (&t, pieces[i], strlen (pieces[i]), stops, num_stops, NULL);
        ready[i] = stream_text_ready (&t, stops, num_stops, false);
    }
    return t;
}

static void test_characters (void)
{
    static const char *const pieces[] = { "a\xe2", "\x82", "\xac", "\xf0\x9f", "\xff", "\xe2" };
    static const char *const bytes[] = { "\xf0", "\x9f", "\x98", "\x80" };
    size_t ready[6];
    struct stream_text t = grow (pieces, 6, 0, ready);

    ok (ready[0] == 1 && ready[1] == 1 && ready[2] == 4, "a character in three pieces");
    ok (ready[3] == 4 && ready[4] == 7, "a character that is not continued is no longer awaited");
    ok (ready[5] == 7 && stream_text_ready (&t, stops, 0, true) == 8, "the end has all bytes");
    text_buffer_clear (&t.text);
    t = grow (bytes, 4, 0, ready);
    ok (ready[0] == 0 && ready[1] == 0 && ready[2] == 0 && ready[3] == 4,
        "a character of four bytes, one by one");
    text_buffer_clear (&t.text);
}

static void test_stops (void)
{
    static const char *const part[] = { "xa", "b", "a", "b", "c" };
    static const char *const first[] = { "xabb", "c" };
    static const char *const both[] = { "xabbabc" };
    size_t ready[5];
    struct stream_text t = grow (part, 5, 1, ready);

    ok (ready[0] == 1 && ready[1] == 1 && ready[2] == 3 && ready[3] == 3,
        "the beginning of a stop string is kept back");
    ok (t.stopped && t.text.size == 3 && ready[4] == 3, "the text ends before it");
    text_buffer_clear (&t.text);
    t = grow (first, 2, 2, ready);
    ok (t.stopped && t.text.size == 2 && memcmp (t.text.data, "xa", 2) == 0, "another string");
    text_buffer_clear (&t.text);
    t = grow (both, 1, 2, ready);
    ok (t.stopped && t.text.size == 2, "the first one of several");
    text_buffer_clear (&t.text);
}

static void test_bytes (void)
{
    static const char *const pieces[] = { "a\xc3", "\xa9" };
    size_t ready[2];
    struct stream_text t = grow (pieces, 2, 3, ready);

    ok (ready[0] == 1 && t.stopped && t.text.size == 1, "a stop string that begins in a token");
    text_buffer_clear (&t.text);
}

static void test_prompt (void)
{
    struct stream_text t = { .from = 4 };

    text_buffer_append (&t.text, "abca", 4, NULL);
    is_int (stream_text_append (&t, "bc", 2, stops, 1, NULL), 0, "no stop string in a prompt");
    is_int ((int)stream_text_ready (&t, stops, 1, false), 6, "all may be sent");
    is_int (stream_text_append (&t, "abc", 3, stops, 1, NULL), 1, "but behind it");
    is_int ((int)t.text.size, 6, "which ends the text");
    text_buffer_clear (&t.text);
}

int main (void)
{
    test_characters ();
    test_stops ();
    test_bytes ();
    test_prompt ();
    return done_testing ();
}
