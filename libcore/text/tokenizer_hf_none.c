/* tokenizer_hf_none - HuggingFaceTokenizer of a build without PCRE2: says so */

#include <errno.h>

#include "libcore/text/tokenizer.h"

static int create (const struct tokenizer_files *files, void **impl, struct mg_error *err)
{
    (void)files, (void)impl;
    return mg_error_set (err, ENOTSUP,
                         "tokenizer HuggingFaceTokenizer needs the PCRE2 library, which "
                         "this build lacks: configure --with-pcre2 (Debian: libpcre2-dev)");
}

const struct tokenizer_ops tokenizer_hf_ops = {
    .name = "HuggingFaceTokenizer",
    .needs_model = true,
    .create = create,
};
