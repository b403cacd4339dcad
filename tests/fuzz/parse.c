/* parse.c - numbers of users: the C library, which takes more, gives the same values
 *
 * Input: the text.
 */

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/base/parse.h"
#include "libcore/optim/num_microbatches.h"
#include "libcore/train/stop.h"
#include "libcore/train/timers.h"
#include "libcore/train/trace.h"
#include "tests/fuzz/fuzz.h"

static void check_numbers (const char *text)
{
    int64_t integer;
    double real;
    bool flag;
    char *end;
    int small;

    if (parse_int64 ("it", text, INT64_MIN, INT64_MAX, &integer, NULL) == 0) {
        errno = 0;
        fuzz_check (strtoll (text, &end, 10) == integer && !errno && !*end && end > text,
                    "\"%s\" is read as %jd", text, (intmax_t)integer);
        fuzz_check ((parse_int ("it", text, -7, 1000, &small, NULL) == 0)
                        == (integer >= -7 && integer <= 1000),
                    "\"%s\" in a range", text);
    } else
        fuzz_check (parse_int ("it", text, -7, 1000, &small, NULL) < 0, "\"%s\"", text);
    if (parse_double ("it", text, -HUGE_VAL, HUGE_VAL, &real, NULL) == 0)
        fuzz_check (isfinite (real) && strtod (text, &end) == real && !*end && end > text,
                    "\"%s\" is read as %g", text, real);
    parse_bool ("it", text, &flag, NULL);
}

static void check_steps (const char *text)
{
    struct batch_config config = { .micro_batch = 1, .dp = 2, .steps = text };
    struct num_microbatches *n = num_microbatches_create (&config, NULL);
    struct batch_size size;

    for (size_t i = 0; n && i < num_microbatches_count (n); i++) {
        num_microbatches_at (n, num_microbatches_from (n, i), &size);
        fuzz_check (size.global_batch > 0, "step %zu of \"%s\" has no batch", i, text);
    }
    num_microbatches_destroy (n);
}

static void run (const uint8_t *data, size_t size)
{
    char *text = fuzz_text ((struct fuzz_input){ data, size });
    enum timers_option option;
    int64_t range[2];
    sigset_t signals;

    check_numbers (text);
    check_steps (text);
    if (trace_iterations_parse (text, range, NULL) == 0)
        fuzz_check (range[0] >= 1 && range[1] >= range[0], "iterations of \"%s\"", text);
    stop_signals (text, &signals, NULL);
    timers_option_parse (text, &option, NULL);
    free (text);
}

const struct fuzz_target fuzz_parse = { "parse", run };
