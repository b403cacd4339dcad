/* task_private.h - what the parts of a task share */
#ifndef LIBCORE_INFER_TASK_PRIVATE_H
#define LIBCORE_INFER_TASK_PRIVATE_H

#include "libcore/infer/task.h"

/* Append a sample of the last 'count' tokens of t->tokens, whose first label that counts is at
 * position 'from'.  -1 and ENOMEM.
 */
int task_add_sample (struct task *t, size_t count, size_t from, struct mg_error *err);

/* Append the samples of lines of JSON, for LAMBADA or HELLASWAG.  -1, EINVAL and a text that names
 * the line, or ENOMEM.
 */
int task_add_lines (struct task *t, struct tokenizer *tokenizer, const char *text, size_t size,
                    struct mg_error *err);

#endif /* LIBCORE_INFER_TASK_PRIVATE_H */
