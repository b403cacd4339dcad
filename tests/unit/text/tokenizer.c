/* tokenizer.c - the table of tokenizers, bytes to ids, the growing buffer */

#include <errno.h>
#include <stdint.h>

#include "libcore/text/tokenizer.h"
#include "tests/unit/data/support.h"

static void test_types (void)
{
    static const char *const good[] = { "ByteLevel", "bytelevel", "BYTELEVEL" };
    static const char *const bad[] = { "", "Byte", "ByteLevelBPE", "NoSuchTokenizer" };

    for (size_t i = 0; i < COUNT (good); i++) {
        struct tokenizer *tokenizer = tokenizer_create (good[i], NULL, NULL);

        ok (tokenizer != NULL, "type \"%s\"", good[i]);
        tokenizer_destroy (tokenizer);
    }
    for (size_t i = 0; i < COUNT (bad); i++) {
        struct mg_error err = { .text = "" };

        errno = 0;
        ok (!tokenizer_create (bad[i], NULL, &err) && errno == EINVAL
            && strstr (err.text, "ByteLevel"), "no type \"%s\": %s", bad[i], err.text);
    }
    tokenizer_destroy (NULL);
}

static void test_bytes (void)
{
    struct tokenizer *tokenizer = tokenizer_create ("ByteLevel", NULL, NULL);
    struct token_buffer buffer = { NULL, 0, 0 };
    struct mg_error err;
    char all[256];
    int same = 0;

    for (int i = 0; i < 256; i++)
        all[i] = (char)i;
    is_int (tokenizer_vocab_size (tokenizer), 257, "257 ids");
    is_int (tokenizer_eod (tokenizer), 256, "the last ends a document");
    ok (tokenizer->ops->any_cut, "a text may be cut anywhere");
    ok (tokenizer_encode (tokenizer, all, 0, &buffer, &err) == 0 && buffer.count == 0,
        "no text, no ids");
    ok (tokenizer_encode (tokenizer, all, 256, &buffer, &err) == 0, "every byte and NUL");
    ok (tokenizer_encode (tokenizer, all + 255, 1, &buffer, &err) == 0, "one more");
    is_int (buffer.count, 257, "each is one id");
    for (int i = 0; i < 257; i++)
        same += buffer.ids[i] == (i < 256 ? i : 255);
    is_int (same, 257, "which is its value, appended to those before");
    free (buffer.ids);
    tokenizer_destroy (tokenizer);
}

static void test_byte_tokens (void)
{
    struct tokenizer *tokenizer = tokenizer_create ("ByteLevel", NULL, NULL);
    int right = 0;
    size_t size;

    for (int i = 0; i < 256; i++) {
        const char *token = tokenizer_token (tokenizer, i, &size);

        right += size == 1 && (unsigned char)*token == i;
    }
    is_int (right, 256, "256 ids are a byte each");
    tokenizer_token (tokenizer, 256, &size);
    is_int (size, 0, "the end of a document is no text");
    tokenizer_destroy (tokenizer);
}

static void test_files (void)
{
    static const struct {
        const char *type;
        struct tokenizer_files files;
        const char *text; /* NULL: as it should be */
    } cases[] = {
        { "ByteLevel", { .vocab = NULL, .merge = NULL }, NULL },
        { "ByteLevel", { .vocab = "v", .merge = NULL },
          "ByteLevel reads no files, but --vocab-file v" },
        { "ByteLevel", { .vocab = NULL, .merge = "m" },
          "ByteLevel reads no files, but --merge-file m" },
        { "GPT2BPETokenizer", { .vocab = "v", .merge = "m" }, NULL },
        { "gpt2bpetokenizer", { .vocab = "v", .merge = "m" }, NULL },
        { "GPT2BPETokenizer", { .vocab = NULL, .merge = NULL },
          "needs --vocab-file and --merge-file" },
        { "GPT2BPETokenizer", { .vocab = "v", .merge = NULL },
          "needs --vocab-file and --merge-file" },
        { "GPT2BPETokenizer", { .vocab = NULL, .merge = "m" },
          "needs --vocab-file and --merge-file" },
        { "GPT2BPETokenizer", { .model = "x" }, "reads no --tokenizer-model, but" },
        { "ByteLevel", { .model = "x" }, "reads no files, but --tokenizer-model x" },
        { "ByteLevel", { .no_special_tokens = true }, "puts no tokens around a text" },
        { "HuggingFaceTokenizer", { .model = "x" }, NULL },
        { "HuggingFaceTokenizer", { .model = "x", .no_special_tokens = true }, NULL },
        { "HuggingFaceTokenizer", { .model = NULL }, "needs --tokenizer-model" },
        { "HuggingFaceTokenizer", { .model = "x", .merge = "m" },
          "reads no --merge-file" },
    };

    for (size_t i = 0; i < COUNT (cases); i++) {
        struct mg_error err = { .text = "" };
        int rc;

        errno = 0;
        rc = tokenizer_check (cases[i].type, &cases[i].files, &err);
        if (cases[i].text)
            ok (rc == -1 && errno == EINVAL && strstr (err.text, cases[i].text),
                "%s: %s", cases[i].type, err.text);
        else
            ok (rc == 0, "%s with its files", cases[i].type);
    }
}

static void test_buffer (void)
{
    struct token_buffer buffer = { NULL, 0, 0 };
    struct mg_error err = { .text = "" };
    size_t capacity;

    ok (token_buffer_reserve (&buffer, 0, &err) == 0, "room for none");
    ok (token_buffer_reserve (&buffer, 1000, &err) == 0 && buffer.capacity >= 1000,
        "room for a thousand");
    buffer.count = 1000;
    capacity = buffer.capacity;
    ok (token_buffer_reserve (&buffer, capacity - 1000, &err) == 0
        && buffer.capacity == capacity, "what is there is used");
    ok (token_buffer_reserve (&buffer, capacity - 999, &err) == 0
        && buffer.capacity > capacity, "then there is more");
    capacity = buffer.capacity;
    errno = 0;
    ok (token_buffer_reserve (&buffer, SIZE_MAX, &err) == -1 && errno == ENOMEM
        && buffer.capacity == capacity && buffer.count == 1000,
        "too much is refused: %s", err.text);
    errno = 0;
    ok (token_buffer_reserve (&buffer, SIZE_MAX / 4, &err) == -1 && errno == ENOMEM,
        "so is what fits no array: %s", err.text);
    free (buffer.ids);
}

int main (void)
{
    test_types ();
    test_bytes ();
    test_byte_tokens ();
    test_files ();
    test_buffer ();
    return done_testing ();
}
