/* version - the library reports the version of its header */

#include <stdio.h>

#include "megatron/version.h"
#include "tests/tap/tap.h"

int main (void)
{
    int major = -1, minor = -1, patch = -1;

    is_str (mg_version (), MG_VERSION, "the header's version");
    is_int (sscanf (mg_version (), "%d.%d.%d", &major, &minor, &patch), 3, "three numbers");
    ok (major >= 0 && minor >= 0 && patch >= 0, "none is negative");
    return done_testing ();
}
