/* tokenizer_gpt2_none - GPT2BPETokenizer of a build without PCRE2: says so */

#include <errno.h>

#include "libcore/text/tokenizer.h"

static int create (const struct tokenizer_files *files, void **impl, struct mg_error *err)
{
    (void)files, (void)impl;
    return mg_error_set (err, ENOTSUP,
                         "tokenizer GPT2BPETokenizer needs the PCRE2 library, which this "
                         "build lacks: configure --with-pcre2 (Debian: libpcre2-dev)");
}

const struct tokenizer_ops tokenizer_gpt2_ops = {
    .name = "GPT2BPETokenizer",
    .needs_files = true,
    .create = create,
};
