/* task.c - lines of LAMBADA and HellaSwag: every sample lies inside its tokens
 *
 * Input: the flags of the task, then the lines.
 */

#include <stdlib.h>

#include "libcore/infer/task_private.h"
#include "tests/fuzz/fuzz.h"

enum { LENGTH = 64 };

static void check_samples (const struct task *t)
{
    int64_t endings = 0;

    for (int64_t i = 0; i < t->num_samples; i++) {
        const struct task_sample *s = &t->sample[i];

        fuzz_check (s->count >= 2 && s->count <= LENGTH + 1 && s->from >= 0
                        && s->from < s->count - 1, "sample of %d tokens from %d on", s->count,
                    s->from);
        fuzz_check (s->first + (size_t)s->count <= t->tokens.count, "tokens from %zu on", s->first);
        fuzz_check (t->config.kind == TASK_LAMBADA || s->characters > 0, "no characters");
    }
    for (int64_t i = 0; i < t->num_questions; i++) {
        const struct task_question *q = &t->question[i];

        fuzz_check (q->first == endings && q->right >= 0 && q->right < q->endings,
                    "ending %d of %d", q->right, q->endings);
        endings += q->endings;
    }
    fuzz_check (t->num_questions == 0 || endings == t->num_samples, "other endings");
}

static void run (const uint8_t *data, size_t size)
{
    static struct tokenizer *tokenizer;
    struct fuzz_input in = { data, size };
    unsigned flags = (unsigned)fuzz_number (&in, 1);
    char *text = fuzz_copy (in);
    struct mg_error err;
    struct task t = { .config = { .kind = flags & 1 ? TASK_LAMBADA : TASK_HELLASWAG,
                                  .seq_length = LENGTH, .strict = flags & 2,
                                  .add_bos = flags & 4, .bos = 256, .vocab_size = 257 } };

    if (!tokenizer)
        tokenizer = tokenizer_create ("ByteLevel", NULL, NULL);
    if (task_add_lines (&t, tokenizer, text, in.left, &err) == 0)
        check_samples (&t);
    else
        fuzz_check (err.text[0], "no text");
    task_clear (&t);
    free (text);
}

const struct fuzz_target fuzz_task = { "task", run };
