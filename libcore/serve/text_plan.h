/* text_plan - the texts that all ranks begin and end before a pass, as bytes that rank 0 sends.
 *
 * A plan is a list of items.  Each item begins a text in a slot that is free, or ends the text of a
 * slot.  The ranks of a job have the same byte order.
 */
#ifndef LIBCORE_SERVE_TEXT_PLAN_H
#define LIBCORE_SERVE_TEXT_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "libcore/infer/sampling.h"
#include "libcore/serve/request.h"
#include "libcore/text/text_buffer.h"
#include "megatron/error.h"

/* A text to generate. */
struct text_plan_text {
    const int32_t *prompt;
    int64_t num_prompt;
    int64_t max_tokens;
    struct sampling sampling;
    struct sampling_draw draw;
    bool scores, ignore_eos;
    bool skip_special; /* special tokens have no bytes */
    int top; /* alternatives of a token */
    struct text_buffer stop[REQUEST_STOPS_MAX];
    int num_stops;
};

struct text_plan_item {
    int slot;
    bool begins;                /* else the text of the slot ends */
    struct text_plan_text text; /* points into the plan; its buffers have no capacity */
};

/* Append an item.  -1 and ENOMEM, the plan as before. */
int text_plan_begin (struct text_buffer *plan, int slot, const struct text_plan_text *text,
                     struct mg_error *err);
int text_plan_end (struct text_buffer *plan, int slot, struct mg_error *err);

/* Read the item at *at, which moves to the next one: 1; 0 if there is none; -1, EINVAL and a text
 * if the bytes are no item.  'plan' is aligned for any type.
 */
int text_plan_next (const char *plan, size_t size, size_t *at, struct text_plan_item *item,
                    struct mg_error *err);

#endif /* LIBCORE_SERVE_TEXT_PLAN_H */
