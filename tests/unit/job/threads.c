/* threads.c - test the division of CPUs among the ranks of a node */

#include <stdlib.h>
#include <string.h>

#include "libcore/job/threads.h"
#include "tests/tap/tap.h"

/* "0011": CPUs 2 and 3. */
static cpu_set_t mask_of (const char *text)
{
    cpu_set_t mask;

    CPU_ZERO (&mask);
    for (int i = 0; text[i]; i++) {
        if (text[i] == '1')
            CPU_SET (i, &mask);
    }
    return mask;
}

static void shares (void)
{
    static const struct {
        const char *what;
        const char *mask[4];
        int n, own, want;
    } rows[] = {
        { "alone on four", { "1111" }, 1, 0, 4 },
        { "alone on one", { "1" }, 1, 0, 1 },
        { "an empty mask", { "" }, 1, 0, 1 },
        { "two on four", { "1111", "1111" }, 2, 1, 2 },
        { "three on four", { "1111", "1111", "1111" }, 3, 2, 1 },
        { "three on three", { "111", "111", "111" }, 3, 0, 1 },
        { "three on six", { "111111", "111111", "111111" }, 3, 0, 2 },
        { "four on two", { "11", "11", "11", "11" }, 4, 3, 1 },
        { "bound apart", { "1100", "0011" }, 2, 0, 2 },
        { "bound apart, second", { "1110", "0001" }, 2, 1, 1 },
        { "a half shared", { "1110", "0011" }, 2, 0, 2 },
        { "same masks, other pair", { "1111", "1111", "00001111", "00001111" }, 4, 2, 2 },
    };

    for (size_t i = 0; i < sizeof (rows) / sizeof (rows[0]); i++) {
        cpu_set_t masks[4];

        for (int r = 0; r < rows[i].n; r++)
            masks[r] = mask_of (rows[i].mask[r]);
        is_int (threads_share (masks, rows[i].n, rows[i].own), rows[i].want, "%s: %d",
                rows[i].what, rows[i].want);
    }
}

static void environment (void)
{
    static const struct {
        const char *text;
        int want;
    } rows[] = {
        { NULL, 5 }, { "", 5 }, { "1", 1 }, { "4,2", 4 }, { "4096", 4096 },
        { "4097", -1 }, { "0", -1 }, { "-1", -1 }, { "two", -1 }, { "2x", -1 },
    };
    struct mg_error err;

    for (size_t i = 0; i < sizeof (rows) / sizeof (rows[0]); i++) {
        const char *text = rows[i].text;

        if (text)
            setenv ("OMP_NUM_THREADS", text, 1);
        else
            unsetenv ("OMP_NUM_THREADS");
        err.text[0] = '\0';
        is_int (threads_environment (5, &err), rows[i].want, "OMP_NUM_THREADS=%s: %d",
                text ? text : "(none)", rows[i].want);
        if (rows[i].want < 0)
            ok (strstr (err.text, "OMP_NUM_THREADS") != NULL, "with a text: %s",
                err.text);
    }
}

int main (void)
{
    shares ();
    environment ();
    return done_testing ();
}
