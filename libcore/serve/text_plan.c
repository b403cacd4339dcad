/* text_plan.c - an item is a head, the ids of the prompt and the stop strings, padded to 8 bytes */

#include <errno.h>
#include <string.h>

#include "libcore/serve/text_plan.h"

struct head {
    int64_t size; /* of the item, a multiple of 8 */
    int64_t slot, begins;
    int64_t num_prompt, max_tokens, top_k, position;
    double temperature, top_p;
    uint64_t seed, request, choice;
    int64_t scores, ignore_eos, skip_special, top, num_stops;
    int64_t stop_size[REQUEST_STOPS_MAX];
};

static size_t padded (size_t size)
{
    return (size + 7) / 8 * 8;
}

static int append_padded (struct text_buffer *plan, const void *bytes, size_t size,
                          struct mg_error *err)
{
    static const char zero[8];

    if (text_buffer_append (plan, bytes, size, err) < 0)
        return -1;
    return text_buffer_append (plan, zero, padded (size) - size, err);
}

/* The item without its size and the sizes of the stop strings. */
static struct head head_of (int slot, const struct text_plan_text *t)
{
    return (struct head){
        .slot = slot, .begins = 1, .num_prompt = t->num_prompt, .max_tokens = t->max_tokens,
        .top_k = t->sampling.top_k, .position = t->draw.position,
        .temperature = t->sampling.temperature, .top_p = t->sampling.top_p,
        .seed = t->draw.seed, .request = t->draw.request, .choice = t->draw.choice,
        .scores = t->scores, .ignore_eos = t->ignore_eos,
        .skip_special = t->skip_special, .top = t->top, .num_stops = t->num_stops,
    };
}

int text_plan_begin (struct text_buffer *plan, int slot, const struct text_plan_text *t,
                     struct mg_error *err)
{
    size_t before = plan->size, ids = (size_t)t->num_prompt * sizeof (*t->prompt);
    struct head head = head_of (slot, t);
    int rc;

    head.size = (int64_t)(sizeof (head) + padded (ids));
    for (int i = 0; i < t->num_stops; i++) {
        head.stop_size[i] = (int64_t)t->stop[i].size;
        head.size += (int64_t)padded (t->stop[i].size);
    }
    rc = append_padded (plan, &head, sizeof (head), err);
    if (rc == 0)
        rc = append_padded (plan, t->prompt, ids, err);
    for (int i = 0; rc == 0 && i < t->num_stops; i++)
        rc = append_padded (plan, t->stop[i].data, t->stop[i].size, err);
    if (rc < 0)
        plan->size = before;
    return rc;
}

int text_plan_end (struct text_buffer *plan, int slot, struct mg_error *err)
{
    const struct head head = { .size = sizeof (head), .slot = slot };

    return text_buffer_append (plan, (const char *)&head, sizeof (head), err);
}

static int refuse (const char *what, struct mg_error *err)
{
    return mg_error_set (err, EINVAL, "the plan of a pass is faulty: %s", what);
}

/* Find the parts of the text that begins behind a head, in 'left' bytes. */
static int read_parts (const struct head *head, const char *bytes, size_t left,
                       struct text_plan_text *t, struct mg_error *err)
{
    if (head->num_prompt < 0 || head->num_prompt > INT32_MAX
        || padded ((size_t)head->num_prompt * sizeof (*t->prompt)) > left)
        return refuse ("the number of the prompt's tokens", err);
    t->prompt = (const int32_t *)(const void *)bytes;
    bytes += padded ((size_t)head->num_prompt * sizeof (*t->prompt));
    left -= padded ((size_t)head->num_prompt * sizeof (*t->prompt));
    if (head->num_stops < 0 || head->num_stops > REQUEST_STOPS_MAX)
        return refuse ("the number of stop strings", err);
    for (int i = 0; i < head->num_stops; i++) {
        size_t size = (size_t)head->stop_size[i];

        if (head->stop_size[i] < 1 || head->stop_size[i] > REQUEST_STOP_BYTES_MAX
            || padded (size) > left)
            return refuse ("the size of a stop string", err);
        t->stop[i] = (struct text_buffer){ .data = (char *)bytes, .size = size };
        bytes += padded (size);
        left -= padded (size);
    }
    return left > 0 ? refuse ("the size of an item", err) : 0;
}

int text_plan_next (const char *plan, size_t size, size_t *at, struct text_plan_item *item,
                    struct mg_error *err)
{
    const char *bytes = plan + *at;
    size_t left = size - *at;
    struct head head;

    if (left == 0)
        return 0;
    if (left < sizeof (head))
        return refuse ("an item is cut", err);
    memcpy (&head, bytes, sizeof (head));
    if (head.size < (int64_t)sizeof (head) || head.size > (int64_t)left || head.size % 8 != 0)
        return refuse ("the size of an item", err);
    if (head.slot < 0 || head.slot > INT32_MAX || head.top < 0 || head.top > INT32_MAX)
        return refuse ("a number", err);
    *item = (struct text_plan_item){
        .slot = (int)head.slot, .begins = head.begins != 0,
        .text = {
            .num_prompt = head.num_prompt, .max_tokens = head.max_tokens,
            .sampling = { head.temperature, head.top_k, head.top_p },
            .draw = { head.seed, head.request, head.choice, head.position },
            .scores = head.scores != 0, .ignore_eos = head.ignore_eos != 0,
            .skip_special = head.skip_special != 0, .top = (int)head.top,
            .num_stops = (int)head.num_stops,
        },
    };
    if (read_parts (&head, bytes + sizeof (head), (size_t)head.size - sizeof (head), &item->text,
                    err) < 0)
        return -1;
    *at += (size_t)head.size;
    return 1;
}
