/* Errors as JSON: their types, and texts that are no UTF-8. */

#include <string.h>

#include <jansson.h>

#include "libcore/serve/answer.h"
#include "tests/tap/tap.h"

static void check (int status, const char *text, const char *want)
{
    struct text_buffer to = { NULL, 0, 0 };

    ok (answer_error (&to, status, text, NULL) == 0
            && text_buffer_append (&to, "", 1, NULL) == 0, "status %d", status);
    is_str (to.data, want, "\"%s\"", text);
    text_buffer_clear (&to);
}

int main (void)
{
    struct text_buffer to = { NULL, 0, 0 };

    check (400, "n: want \"1\"", "{\"error\":{\"message\":\"n: want \\\"1\\\"\","
           "\"type\":\"invalid_request_error\",\"param\":null,\"code\":null}}");
    check (401, "a key", "{\"error\":{\"message\":\"a key\",\"type\":\"authentication_error\","
           "\"param\":null,\"code\":\"invalid_api_key\"}}");
    check (503, "\xff", "{\"error\":{\"message\":\"\xef\xbf\xbd\",\"type\":\"server_error\","
           "\"param\":null,\"code\":null}}");
    check (500, "", "{\"error\":{\"message\":\"\",\"type\":\"server_error\",\"param\":null,"
           "\"code\":null}}");
    ok (answer_json (&to, NULL, NULL) == -1 && to.size == 0, "no value");
    ok (answer_json (&to, json_pack ("[i, n]", 1), NULL) == 0 && to.size == 8
            && memcmp (to.data, "[1,null]", 8) == 0, "a value");
    text_buffer_clear (&to);
    return done_testing ();
}
