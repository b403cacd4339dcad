/* template - chat templates, in the language of Jinja as models' tokenizers use it
 *
 * A template is read once and rendered for each request.  Blocks are trimmed as Hugging Face's
 * transformers does (trim_blocks and lstrip_blocks); the result is that of Jinja 3.1, or an error.
 *
 *     tags         if, for (with a filter, else; break and continue), set (also of namespaces and
 *                  of blocks), macro, generation (renders its body)
 *     expressions  all but calls with * or **, and methods that are not called
 *     functions    range, namespace, dict, raise_exception, strftime_now (local time)
 *
 * template_functions.c has the filters, tests and methods.  Other names are refused when the
 * template is read, with their line.  Values on which Jinja's result would depend on tables of
 * Unicode (case of letters that are not ASCII) or on Python's objects (the text of a generator) are
 * refused when they are rendered.
 */
#ifndef LIBCORE_SERVE_TEMPLATE_H
#define LIBCORE_SERVE_TEMPLATE_H

#include <stddef.h>

#include <jansson.h>

#include "libcore/text/text_buffer.h"
#include "megatron/error.h"

enum {
    TEMPLATE_BYTES_MAX = 1 << 20,  /* of the source */
    TEMPLATE_DEPTH_MAX = 100,      /* of nested blocks and expressions of the source */
    TEMPLATE_CALLS_MAX = 300,      /* of blocks, expressions and calls that are being rendered */
    TEMPLATE_STEPS_MAX = 1000000,  /* evaluated expressions, statements and KiB of compared text */
    TEMPLATE_OUTPUT_MAX = 16 << 20, /* bytes of the result */
    TEMPLATE_MEMORY_MAX = 64 << 20 /* bytes of all values of a rendering */
};

struct chat_template;

/* Read a template of 'size' bytes of UTF-8.  The text need not outlive the call.  NULL and a text
 * "line 3: ..." on failure: EINVAL if it is wrong or too large, ENOTSUP if it uses a
 * feature that is not supported, ENOMEM.  Free it with chat_template_destroy().
 */
struct chat_template *chat_template_create (const char *text, size_t size, struct mg_error *err);

/* Render it.  'variables' is an object: messages, add_generation_prompt, bos_token, tools, ...
 * It is only read.  The result is appended to 'out', which a failure leaves as it was.  0, or -1
 * with a text that names the line: EINVAL if the template fails with these variables, or
 * calls raise_exception(), whose text follows; ENOTSUP; E2BIG if a limit is reached; ENOMEM.
 * Several threads may render the same template.
 */
int chat_template_render (const struct chat_template *t, const json_t *variables,
                          struct text_buffer *out, struct mg_error *err);

void chat_template_destroy (struct chat_template *t);

#endif /* LIBCORE_SERVE_TEMPLATE_H */
