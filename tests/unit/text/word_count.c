/* word_count - words in the order of their first, however many; bytes of any value */

#include <stdio.h>
#include <string.h>

#include "libcore/text/word_count.h"
#include "tests/tap/tap.h"

enum { WORDS = 5000 };

int main (void)
{
    struct word_count c = { NULL };
    struct mg_error err = { "" };
    int wrong = 0;

    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < WORDS; i++) {
            char word[16];
            int n = snprintf (word, sizeof (word), "%d", i * 13);

            /* word i is there in rounds 0 to i % 3 */
            if (round <= i % 3 && word_count_add (&c, word, (size_t)n, &err) < 0)
                bail_out ("%s", err.text);
        }
    }
    is_int (c.num_words, WORDS, "each word is there once");
    for (int i = 0; i < WORDS && c.num_words == WORDS; i++) {
        char word[16];
        size_t n = (size_t)snprintf (word, sizeof (word), "%d", i * 13);

        wrong += c.words[i].count != 1 + i % 3 || c.words[i].size != n
                 || memcmp (c.bytes.data + c.words[i].at, word, n) != 0;
    }
    is_int (wrong, 0, "in the order of their first, with its count");
    word_count_add (&c, "a\0b", 3, &err);
    word_count_add (&c, "a\0c", 3, &err);
    word_count_add (&c, "a", 1, &err);
    word_count_add (&c, "", 0, &err);
    word_count_add (&c, "", 0, &err);
    ok (c.num_words == WORDS + 4 && c.words[WORDS + 3].count == 2,
        "words of zeros and of nothing differ");
    word_count_clear (&c);
    ok (c.num_words == 0 && !c.words && !c.rows && !c.bytes.data, "a cleared one is empty");
    is_int (word_count_add (&c, "again", 5, &err), 0, "and can be used again");
    word_count_clear (&c);
    return done_testing ();
}
