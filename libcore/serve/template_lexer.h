/* template_lexer - the tokens of a template */
#ifndef LIBCORE_SERVE_TEMPLATE_LEXER_H
#define LIBCORE_SERVE_TEMPLATE_LEXER_H

#include "libcore/serve/template_value.h"

enum tpl_token_kind {
    TPL_TOKEN_END, /* always the last one */
    TPL_TOKEN_TEXT,
    TPL_TOKEN_OUTPUT,     /* {{ */
    TPL_TOKEN_OUTPUT_END, /* }} */
    TPL_TOKEN_TAG,        /* {% */
    TPL_TOKEN_TAG_END,    /* %} */
    TPL_TOKEN_NAME,
    TPL_TOKEN_STRING,
    TPL_TOKEN_INT,
    TPL_TOKEN_FLOAT,
    TPL_TOKEN_OPERATOR
};

struct tpl_token {
    enum tpl_token_kind kind;
    int line;             /* from 1 on */
    struct tpl_text text; /* as written; of TEXT and STRING, without trimmed blanks and escapes */
    int64_t integer;
    double number;
};

struct tpl_tokens {
    struct tpl_token *token;
    size_t count, capacity;
};

/* Read the tokens of a source, which is valid UTF-8 with "\n" at the ends of lines.  They borrow
 * the source, and the arena for strings.  -1 and a text with the line on failure.
 * tpl_tokens_clear() frees them, also after a failure.
 */
int tpl_lex (struct tpl_tokens *to, struct tpl_text source, struct tpl_arena *arena,
             struct mg_error *err);
void tpl_tokens_clear (struct tpl_tokens *t);

#endif /* LIBCORE_SERVE_TEMPLATE_LEXER_H */
