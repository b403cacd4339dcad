/* Plans of passes: what is written is read, and bytes that are no plan are refused. */

#include <errno.h>
#include <string.h>

#include "libcore/serve/text_plan.h"
#include "tests/tap/tap.h"

static const int32_t ids[] = { 5, 0, 7 };
static char end[] = "end", zero[] = "a\0bcdefgh";

static struct text_plan_text text (int64_t num_prompt)
{
    return (struct text_plan_text){
        .prompt = ids, .num_prompt = num_prompt, .max_tokens = 9, .sampling = { 0.5, 40, 0.9 },
        .draw = { UINT64_MAX, 3, 2, 0 }, .scores = true,
        .skip_special = true, .top = 4,
        .stop = { { end, 3, 0 }, { zero, 9, 0 } }, .num_stops = 2,
    };
}

static void test_items (void)
{
    struct text_buffer plan = { NULL, 0, 0 };
    struct text_plan_text three = text (3), none = { .prompt = ids, .ignore_eos = true };
    struct text_plan_item item;
    size_t at = 0;

    ok (text_plan_end (&plan, 6, NULL) == 0 && text_plan_begin (&plan, 1, &three, NULL) == 0
            && text_plan_begin (&plan, 2, &none, NULL) == 0, "three items");
    ok (text_plan_next (plan.data, plan.size, &at, &item, NULL) == 1 && !item.begins
            && item.slot == 6, "a text ends");
    ok (text_plan_next (plan.data, plan.size, &at, &item, NULL) == 1 && item.begins
            && item.slot == 1, "a text begins");
    ok (item.text.num_prompt == 3 && memcmp (item.text.prompt, ids, sizeof (ids)) == 0,
        "its prompt");
    ok (item.text.max_tokens == 9 && item.text.sampling.temperature == 0.5
            && item.text.sampling.top_k == 40 && item.text.sampling.top_p == 0.9
            && item.text.draw.seed == UINT64_MAX && item.text.draw.request == 3
            && item.text.draw.choice == 2 && item.text.scores && !item.text.ignore_eos
            && item.text.skip_special && item.text.top == 4, "its numbers");
    ok (item.text.num_stops == 2 && item.text.stop[0].size == 3 && item.text.stop[1].size == 9
            && memcmp (item.text.stop[1].data, zero, 9) == 0, "its stop strings");
    ok (text_plan_next (plan.data, plan.size, &at, &item, NULL) == 1 && item.begins
            && item.text.num_prompt == 0 && item.text.num_stops == 0 && item.text.ignore_eos
            && !item.text.skip_special,
        "a text without them");
    ok (text_plan_next (plan.data, plan.size, &at, &item, NULL) == 0 && at == plan.size,
        "the end");
    text_buffer_clear (&plan);
}

/* Each cut of an item, and each wrong number in its head, is refused or another item in bounds. */
static void test_faults (void)
{
    struct text_buffer plan = { NULL, 0, 0 };
    struct text_plan_text three = text (3);
    struct text_plan_item item;
    int refused = 0, beyond = 0;

    text_plan_begin (&plan, 1, &three, NULL);
    for (size_t size = 1; size < plan.size; size++) {
        struct mg_error err = { "" };
        size_t at = 0;

        refused += text_plan_next (plan.data, size, &at, &item, &err) < 0 && errno == EINVAL
                   && err.text[0];
    }
    is_int (refused, (int)plan.size - 1, "an item that is cut");
    for (size_t i = 0; i + 8 <= plan.size; i += 8) {
        static const int64_t wrong[] = { -1, INT64_MIN, INT64_MAX, (int64_t)1 << 32, 100, 8 };

        for (size_t k = 0; k < sizeof (wrong) / sizeof (wrong[0]); k++) {
            size_t at = 0;
            char saved[8];

            memcpy (saved, plan.data + i, 8);
            memcpy (plan.data + i, &wrong[k], 8);
            if (text_plan_next (plan.data, plan.size, &at, &item, NULL) == 1) {
                beyond += at > plan.size || item.text.num_stops > REQUEST_STOPS_MAX;
                beyond += (const char *)(item.text.prompt + item.text.num_prompt)
                          > plan.data + plan.size;
            }
            memcpy (plan.data + i, saved, 8);
        }
    }
    is_int (beyond, 0, "nothing lies outside of the plan");
    text_buffer_clear (&plan);
}

int main (void)
{
    test_items ();
    test_faults ();
    return done_testing ();
}
