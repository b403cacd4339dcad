/* word_cache - a row has one word; a word is found by all of its bytes, with its ids in order */

#include <stdlib.h>
#include <string.h>

#include "libcore/text/word_cache.h"
#include "tests/tap/tap.h"

int main (void)
{
    static const int32_t ids[WORD_CACHE_IDS + 1] = { 3, 1, 4, 1, 5, 9, 2, 6, 5 };
    struct mg_error err = { "" };
    struct word_cache_row *cache = word_cache_create (&err), *row;
    int32_t room[2 + WORD_CACHE_IDS];
    struct token_buffer out = { room, 2, 2 + WORD_CACHE_IDS };
    char longest[WORD_CACHE_TEXT];

    if (!cache)
        bail_out ("%s", err.text);
    row = word_cache_row (cache, "word", 4);
    ok (!word_cache_get (row, "word", 4, &out) && out.count == 2, "an empty cache has no word");
    word_cache_put (row, "word", 4, ids, 3);
    ok (word_cache_row (cache, "word", 4) == row && word_cache_get (row, "word", 4, &out),
        "a word is found where it was put");
    ok (out.count == 5 && room[2] == 3 && room[3] == 1 && room[4] == 4, "its ids are appended");
    out.count = 2;
    ok (!word_cache_get (row, "wore", 4, &out) && !word_cache_get (row, "wor", 3, &out)
            && !word_cache_get (row, "words", 5, &out) && out.count == 2,
        "another word in its row is another word");
    word_cache_put (row, "other", 5, ids, WORD_CACHE_IDS);
    ok (!word_cache_get (row, "word", 4, &out) && word_cache_get (row, "other", 5, &out),
        "a new word takes the row");
    ok (out.count == 2 + WORD_CACHE_IDS && memcmp (room + 2, ids, sizeof (room) - 8) == 0,
        "with as many ids as there is room for");
    out.count = 2;
    word_cache_put (row, "many", 4, ids, WORD_CACHE_IDS + 1);
    ok (!word_cache_get (row, "many", 4, &out) && word_cache_get (row, "other", 5, &out),
        "a word of more ids is not kept");
    memset (longest, 'x', sizeof (longest));
    out.count = 2;
    row = word_cache_row (cache, longest, sizeof (longest));
    word_cache_put (row, longest, sizeof (longest), ids, 0);
    ok (word_cache_get (row, longest, sizeof (longest), &out) && out.count == 2,
        "the longest word, without ids");
    free (cache);
    return done_testing ();
}
