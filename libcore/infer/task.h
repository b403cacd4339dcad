/* task - a benchmark: its file as samples of tokens, and its figures.
 *
 * Tasks and windows are those of Megatron-LM's tasks/zeroshot_gpt, and HellaSwag (Zellers et al.
 * 2019) as lm-evaluation-harness measures it:
 *
 *   WIKITEXT103  the loss of a text, whose words and marks are separated by blanks, by the words
 *   PTB          the same with Penn Treebank's detokenizer
 *   PERPLEXITY   the loss of an ordinary text
 *   LAMBADA      whether the last word of each text is what the model would go on with; lines of
 *                JSON with "text", or with "tokens" and "labels", lists of ids
 *   HELLASWAG    which of some endings of a text is the most probable; lines of JSON with "ctx",
 *                "endings" and "label"; an ending follows the context and a blank
 *
 * A text is cut into windows of the model's sequence length S.  Window i begins at token i N, where
 * N is the overlap, and only the labels that no earlier window had count: all of the first window,
 * of others those from position S - N on.
 */
#ifndef LIBCORE_INFER_TASK_H
#define LIBCORE_INFER_TASK_H

#include <stdbool.h>
#include <stdint.h>

#include "libcore/data/sample_source.h"
#include "libcore/infer/scorer.h"
#include "libcore/text/tokenizer.h"
#include "megatron/error.h"

enum task_kind {
    TASK_WIKITEXT103,
    TASK_PTB,
    TASK_PERPLEXITY,
    TASK_LAMBADA,
    TASK_HELLASWAG,
    TASK_NUM_KINDS
};

const char *task_name (enum task_kind kind);

/* Find a kind by its name, in capital or small letters: -1, EINVAL and a text that lists the names
 * if there is none.
 */
int task_parse (const char *name, enum task_kind *kind, struct mg_error *err);

/* How a file is read. */
struct task_config {
    enum task_kind kind;
    const char *path;
    int seq_length; /* S */
    int overlap;    /* N, 1 to S; 0: S */
    bool strict;    /* LAMBADA: the whole last word counts; else the last token */
    bool add_bos;   /* a text begins with ... */
    int32_t bos;    /* ... this token */
    int vocab_size; /* of the model */
};

/* Tokens of a pass.  The pass reads all but the last one, which is only a label. */
struct task_sample {
    size_t first;      /* place of the first token in task.tokens */
    int count;         /* tokens, S + 1 at most */
    int from;          /* position of the first label that counts, count - 1: none does */
    int64_t characters; /* HELLASWAG: of the ending */
};

/* HELLASWAG: a context whose endings are samples 'first', 'first' + 1, ... */
struct task_question {
    int64_t first;
    int endings, right;
};

/* A task of zeros is empty. */
struct task {
    struct task_config config;
    struct token_buffer tokens;
    struct task_sample *sample;
    int64_t num_samples;
    struct task_question *question;
    int64_t num_questions;
    int64_t text_tokens; /* of a text: its tokens T', the first one included */
    int64_t words;       /* T_o (detokenizer_words()), 0 without a detokenizer */
    int64_t bytes;       /* of the file */
    struct sample_source source; /* of these samples; the task owns it */
};

/* Read the file of a task.  'tokenizer' puts no special tokens around a text; LAMBADA does without
 * (NULL) if all lines have tokens.  -1 with an errno of open(), EINVAL (the file, or N, is wrong;
 * the text names the line), EFBIG or ENOMEM and a text; the task is then empty.  t->source points
 * to the task, which must stay where it is.
 */
int task_read (struct task *t, const struct task_config *config, struct tokenizer *tokenizer,
               struct mg_error *err);
void task_clear (struct task *t);

/* Figures of a task.  A figure that a task does not have is NAN. */
struct task_figures {
    int64_t tokens;       /* of the text, T'; else labels that count */
    double loss;          /* sum of losses / (T' - 1); LAMBADA: / labels */
    double ppl;           /* exp (min (20, sum / (T' - 1))) */
    double ppl_adjusted;  /* exp (min (20, sum / (T_o - 1))) */
    double ppl_paper;     /* exp (sum / T_o) (Shoeybi et al. 2019, appendix E) */
    double bits_per_byte; /* sum / log 2 / bytes of the file */
    double accuracy;      /* texts whose labels all have the largest logits; questions whose right
                             ending has the least loss */
    double accuracy_norm; /* the same with the loss divided by the characters of the ending */
};

/* Compute the figures of 'score' [num_samples]. */
void task_figures (const struct task *t, const struct scorer_sample *score,
                   struct task_figures *f);

#endif /* LIBCORE_INFER_TASK_H */
