/* bpe_train_none - training in a build without PCRE2: says so */

#include <errno.h>

#include "libcore/text/bpe_train.h"

struct bpe_train *bpe_train_create (const struct bpe_train_options *options,
                                    struct mg_error *err)
{
    (void)options;
    mg_error_set (err, ENOTSUP, "training a tokenizer needs the PCRE2 library, which this "
                  "build lacks: configure --with-pcre2 (Debian: libpcre2-dev)");
    return NULL;
}

void bpe_train_destroy (struct bpe_train *train)
{
    (void)train;
}

int bpe_train_add (struct bpe_train *train, const char *text, size_t size,
                   struct mg_error *err)
{
    (void)train, (void)text, (void)size;
    return mg_error_set (err, ENOTSUP, "no PCRE2");
}

int bpe_train_learn (struct bpe_train *train, int32_t *num_tokens, struct mg_error *err)
{
    (void)train, (void)num_tokens;
    return mg_error_set (err, ENOTSUP, "no PCRE2");
}

int bpe_train_write (const struct bpe_train *train, struct text_buffer *out,
                     struct mg_error *err)
{
    (void)train, (void)out;
    return mg_error_set (err, ENOTSUP, "no PCRE2");
}

int bpe_train_config (const struct bpe_train_options *options, struct text_buffer *out,
                      struct mg_error *err)
{
    (void)options, (void)out;
    return mg_error_set (err, ENOTSUP, "no PCRE2");
}
