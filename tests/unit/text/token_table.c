/* token_table - tokens by id and ids by bytes: any bytes, tokens without, the first of two */

#include <stdio.h>
#include <string.h>

#include "libcore/text/token_table.h"
#include "tests/tap/tap.h"

enum { IDS = 3000 };

static int name (int id, char text[16])
{
    return snprintf (text, 16, "t%d", id * 7) + 1; /* with the NUL */
}

int main (void)
{
    struct token_table t = { 0 };
    struct mg_error err = { "" };
    char text[16];
    size_t size = 9;
    int wrong = 0;

    token_table_clear (&t);
    if (token_table_create (&t, IDS, &err) < 0)
        bail_out ("%s", err.text);
    ok (token_table_get (&t, 5, &size) && size == 0, "a token begins without bytes");
    is_int (token_table_find (&t, "x", 1), -1, "an empty table finds nothing");
    for (int id = 0; id < IDS - 2; id++) {
        int n = name (id, text);

        if (token_table_set (&t, id, text, (size_t)n, &err) < 0)
            bail_out ("%s", err.text);
        if (id % 2)
            token_table_index (&t, id);
    }
    for (int id = 0; id < IDS - 2; id++) {
        int n = name (id, text);
        const char *bytes = token_table_get (&t, id, &size);

        wrong += size != (size_t)n || memcmp (bytes, text, size) != 0;
        wrong += token_table_find (&t, text, size) != (id % 2 ? id : -1);
        wrong += token_table_find (&t, text, size - 1) != -1;
    }
    is_int (wrong, 0, "tokens have their bytes, those that are indexed are found by all of them");
    name (7, text);
    if (token_table_set (&t, IDS - 1, text, strlen (text) + 1, &err) < 0)
        bail_out ("%s", err.text);
    token_table_index (&t, IDS - 1);
    is_int (token_table_find (&t, text, strlen (text) + 1), 7,
            "of two with the same bytes the first");
    token_table_clear (&t);
    ok (!t.spans && !t.rows, "a cleared one is empty");
    token_table_clear (&t);
    return done_testing ();
}
