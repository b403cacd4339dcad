/* text_buffer - bytes are appended and kept while the buffer grows; what has no room fails */

#include <errno.h>
#include <string.h>

#include "libcore/text/text_buffer.h"
#include "tests/tap/tap.h"

int main (void)
{
    struct text_buffer b = { NULL };
    struct mg_error err = { "" };
    bool same = true;
    char *before;

    is_int (text_buffer_append (&b, NULL, 0, &err), 0, "nothing can be appended to an empty one");
    is_int (b.size, 0, "which stays empty");
    for (int i = 0; i < 5000; i++) {
        char word[2] = { (char)('a' + i % 26), '\0' };

        if (text_buffer_append (&b, word, 2, &err) < 0)
            bail_out ("%s", err.text);
    }
    for (int i = 0; i < 5000; i++)
        same &= b.data[2 * i] == 'a' + i % 26 && b.data[2 * i + 1] == '\0';
    ok (b.size == 10000 && b.capacity >= b.size && same, "bytes are kept, zeros included");
    is_int (text_buffer_reserve (&b, 100000, &err), 0, "room for more");
    before = b.data;
    ok (b.capacity - b.size >= 100000 && b.size == 10000, "there is that room");
    is_int (text_buffer_reserve (&b, 100000, &err), 0, "that is there already");
    ok (b.data == before, "nothing moves");
    errno = 0;
    ok (text_buffer_reserve (&b, SIZE_MAX / 2, &err) == -1 && errno == ENOMEM,
        "too much fails: %s", err.text);
    ok (b.data == before && b.size == 10000 && b.data[0] == 'a', "the buffer is as before");
    text_buffer_clear (&b);
    ok (!b.data && b.size == 0 && b.capacity == 0, "a cleared one is empty");
    text_buffer_clear (&b);
    return done_testing ();
}
