/* skip.c - iterations that a run leaves out */

#include "libcore/base/parse.h"
#include "libcore/train/skip.h"

enum { MAX_ITERATION_DIGITS = 15 }; // as of --train-iters

static int parse (const char *word, int64_t *iteration, struct mg_error *err)
{
    int64_t most = 1;

    for (int i = 0; i < MAX_ITERATION_DIGITS; i++)
        most *= 10;
    return parse_int64 ("--iterations-to-skip", word, 1, most, iteration, err);
}

int skip_check (const struct arg_list *list, struct mg_error *err)
{
    int64_t iteration;

    for (int i = 0; i < list->count; i++) {
        if (parse (arg_list_word (list, i), &iteration, err) < 0)
            return -1;
    }
    return 0;
}

bool skip_has (const struct arg_list *list, int64_t iteration)
{
    int64_t one;

    for (int i = 0; i < list->count; i++) {
        if (parse (arg_list_word (list, i), &one, NULL) == 0 && one == iteration)
            return true;
    }
    return false;
}
