/* engine - the loop in which all ranks of a job generate the texts that rank 0 is asked for.
 *
 * Between two passes rank 0 broadcasts a small plan: whether to go on, and the number of bytes of
 * new texts and of texts that end early (text_plan.h), which a second broadcast brings if there are
 * any.  Every rank looks for tokens and stop strings that end a text, so all ranks end it after the
 * same token.  Rank 0 broadcasts a plan at least every ENGINE_IDLE_SECONDS, so the time limit of
 * collective calls does not end an idle job.
 */
#ifndef LIBCORE_SERVE_ENGINE_H
#define LIBCORE_SERVE_ENGINE_H

#include <stdbool.h>

#include "libcore/infer/generator.h"
#include "libcore/job/job.h"
#include "libcore/serve/text_plan.h"
#include "libcore/text/tokenizer.h"
#include "megatron/error.h"

#define ENGINE_IDLE_SECONDS 0.25

/* Where rank 0's texts come from and go to.  All functions are called from engine_run(). */
struct engine_source {
    /* Append the items of the next pass, for slots 0 to slots - 1.  'idle': no text runs; the
     * function may then wait for ENGINE_IDLE_SECONDS.  1, 0 to end the loop, -1 and a text.
     */
    int (*plan) (void *arg, bool idle, struct text_buffer *plan, struct mg_error *err);
    /* A token of the text in a slot, and its bytes, which the call lends.  A token that ends a text
     * has none, nor has a special one that the text skips.
     */
    void (*token) (void *arg, int slot, const struct generator_token *token, const char *bytes,
                   size_t size);
    /* The text of a slot has ended, and the slot is free.  'stopped': by a token or a stop string,
     * else by its length.
     */
    void (*end) (void *arg, int slot, bool stopped);
    void *arg;
};

struct engine_config {
    struct generator *generator;
    const struct job *job;
    int slots;                         /* requests of the generator */
    const struct tokenizer *tokenizer; /* NULL: tokens have no bytes */
    const struct token_buffer *ends;   /* tokens that end a text */
    const struct engine_source *source; /* rank 0's; others have NULL */
};

/* Run until source->plan() returns 0.  -1 and a text on failure, after which other ranks may wait.
 * Collective.
 */
int engine_run (const struct engine_config *config, struct mg_error *err);

#endif /* LIBCORE_SERVE_ENGINE_H */
