/* Files of benchmarks as samples: windows, LAMBADA, HellaSwag, faults; figures by hand. */

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "libcore/args/file.h"
#include "libcore/infer/task.h"
#include "tests/tap/tap.h"

enum { VOCAB = 257 };

static char path[] = "/tmp/mg-task-XXXXXX";

static void write_file (const char *bytes, size_t size)
{
    FILE *f = fopen (path, "w");

    if (!f || fwrite (bytes, 1, size, f) != size || fclose (f) != 0)
        bail_out ("%s cannot be written", path);
}

static struct tokenizer *bytes_tokenizer (void)
{
    struct tokenizer *tokenizer = tokenizer_create ("ByteLevel", NULL, NULL);

    if (!tokenizer)
        bail_out ("no tokenizer");
    return tokenizer;
}

static int read_bytes (struct task *t, const struct task_config *config, struct mg_error *err)
{
    struct tokenizer *tokenizer = bytes_tokenizer ();
    struct task_config c = *config;
    int rc;

    c.path = path;
    if (c.vocab_size == 0)
        c.vocab_size = VOCAB;
    rc = task_read (t, &c, tokenizer, err);
    tokenizer_destroy (tokenizer);
    return rc;
}

/* --- windows --- */

/* Do the windows of a text have the starts, tokens and weights of the reference data? */
static bool same_windows (const struct task *t, const json_t *windows)
{
    int32_t tokens[512], labels[512];
    float mask[512];
    const struct sample to = sample_of_gpt (tokens, labels, mask, t->source.seq_length);
    struct mg_error err;

    for (size_t i = 0; i < json_array_size (windows); i++) {
        const json_t *w = json_array_get (windows, i);
        const struct task_sample *s = &t->sample[i];
        int ones = 0, first = -1;

        if (t->source.ops->sample (t->source.impl, (int64_t)i, &to, &err) < 0)
            return false;
        for (int k = 0; k < t->source.seq_length; k++) {
            if (mask[k] != 0 && first < 0)
                first = k;
            ones += mask[k] == 1;
            if (mask[k] != 0 && labels[k] != t->tokens.ids[s->first + (size_t)k + 1])
                return false;
        }
        if ((json_int_t)s->first != json_integer_value (json_object_get (w, "start"))
            || s->count != json_integer_value (json_object_get (w, "real_tokens"))
            || ones != json_integer_value (json_object_get (w, "mask_ones"))
            || (ones > 0 && first != json_integer_value (json_object_get (w, "first_one"))))
            return false;
    }
    return (size_t)t->num_samples == json_array_size (windows);
}

static void test_windows (const json_t *all)
{
    size_t i, tested = 0;
    const json_t *one;

    json_array_foreach (json_object_get (all, "windows"), i, one) {
        int n = (int)json_integer_value (json_object_get (one, "num_tokens"));
        struct task_config config = {
            .kind = TASK_PERPLEXITY,
            .seq_length = (int)json_integer_value (json_object_get (one, "seq_length")),
            .overlap = (int)json_integer_value (json_object_get (one, "overlapping_eval")),
        };
        struct mg_error err = { "" };
        char bytes[2048];
        struct task t;

        if (n < 2 || config.overlap > config.seq_length
            || (config.overlap == 0 && !json_is_null (json_object_get (one, "overlapping_eval"))))
            continue; // which are refused here
        for (int k = 0; k < n; k++)
            bytes[k] = (char)(k % 251);
        write_file (bytes, (size_t)n);
        if (read_bytes (&t, &config, &err) < 0)
            bail_out ("%s", err.text);
        ok (same_windows (&t, json_object_get (one, "windows")), "%d tokens in windows of %d, each "
            "%d", n, config.seq_length, config.overlap);
        task_clear (&t);
        tested++;
    }
    ok (tested > 10, "%zu sets of windows", tested);
}

/* --- LAMBADA --- */

static bool same_ids (const int32_t *ids, const json_t *want)
{
    for (size_t i = 0; i < json_array_size (want); i++) {
        if (ids[i] != json_integer_value (json_array_get (want, i)))
            return false;
    }
    return true;
}

static void test_split (const json_t *one, bool strict)
{
    struct task_config config = { .kind = TASK_LAMBADA, .seq_length = 96, .strict = strict };
    const json_t *samples = json_object_get (one, "samples"), *sample;
    struct mg_error err = { "" };
    FILE *f = fopen (path, "w");
    struct task t;
    size_t i;

    json_array_foreach (samples, i, sample) {
        json_t *line = json_pack ("{s:O}", "text", json_object_get (sample, "text"));

        json_dumpf (line, f, 0);
        fputc ('\n', f);
        json_decref (line);
    }
    fclose (f);
    if (read_bytes (&t, &config, &err) < 0)
        bail_out ("%s", err.text);
    is_int (t.num_samples, (int64_t)json_array_size (samples), "samples of LAMBADA");
    json_array_foreach (samples, i, sample) {
        const json_t *tokens = json_object_get (sample, "tokens");
        const json_t *labels = json_object_get (sample, "labels");
        const int32_t *ids = t.tokens.ids + t.sample[i].first;
        int n = (int)json_array_size (tokens);

        ok (t.sample[i].from == n - 1 && t.sample[i].count == n + (int)json_array_size (labels)
                && same_ids (ids, tokens) && same_ids (ids + n, labels),
            "tokens and labels of text %zu, %sstrict", i, strict ? "" : "not ");
    }
    task_clear (&t);
}

static void test_lambada (const json_t *all)
{
    const json_t *cases = json_object_get (json_object_get (all, "lambada_split"), "cases"), *one;
    int tested = 0;
    size_t i;

    json_array_foreach (cases, i, one) {
        if (strncmp (json_string_value (json_object_get (one, "tokenizer")), "bytes", 5) != 0)
            continue;
        test_split (one, json_is_true (json_object_get (one, "strict")));
        tested++;
    }
    is_int (tested, 2, "strict and not");
}

/* --- GPT-2's tokens of the whole files --- */

static void test_wikitext (struct tokenizer *tokenizer)
{
    struct task_config config = { .kind = TASK_WIKITEXT103, .seq_length = 1024,
                                  .vocab_size = 50257 };
    char tokens[1024], golden[1024];
    struct mg_error err = { "" };
    size_t size, same = 0;
    struct task t;
    char *want;

    if (!shared_file (tokens, sizeof (tokens), "data/wikitext/wikitext103.wiki.test.tokens")
        || !shared_file (golden, sizeof (golden),
                         "data/golden/wikitext103.test.detok.gpt2.u16.bin")) {
        skip (4, "no WikiText-103 at %s", tokens);
        return;
    }
    config.path = tokens;
    if (task_read (&t, &config, tokenizer, &err) < 0)
        bail_out ("%s", err.text);
    is_int (t.text_tokens, 270330, "tokens of WikiText-103");
    is_int (t.words, 245566, "words of WikiText-103");
    is_int (t.num_samples, 264, "windows of 1024");
    want = args_file_bytes (golden, 1 << 22, &size, &err);
    for (size_t i = 0; want && i < t.tokens.count && 2 * i + 1 < size; i++) {
        int id = (unsigned char)want[2 * i] | (unsigned char)want[2 * i + 1] << 8;

        same += t.tokens.ids[i] == id;
    }
    ok (same == size / 2 && same == t.tokens.count, "its ids are those of the reference data");
    free (want);
    task_clear (&t);
}

static void test_last_words (struct tokenizer *tokenizer)
{
    static const int64_t want[] = { 0, 4013, 913, 208, 16, 3 };
    struct task_config config = { .kind = TASK_LAMBADA, .seq_length = 1024, .vocab_size = 50257,
                                  .strict = true };
    char lambada[1024];
    struct mg_error err = { "" };
    int64_t count[6] = { 0 };
    struct task t;

    if (!shared_file (lambada, sizeof (lambada), "data/lambada/lambada_test.jsonl")) {
        skip (6, "no LAMBADA at %s", lambada);
        return;
    }
    config.path = lambada;
    if (task_read (&t, &config, tokenizer, &err) < 0)
        bail_out ("%s", err.text);
    for (int64_t i = 0; i < t.num_samples; i++) {
        int labels = t.sample[i].count - 1 - t.sample[i].from;

        count[labels < 6 ? labels : 0]++;
    }
    is_int (t.num_samples, 5153, "texts of LAMBADA");
    for (int i = 1; i < 6; i++)
        is_int (count[i], want[i], "last words of %d tokens", i);
    task_clear (&t);
}

static void test_gpt2 (void)
{
    char vocab[1024], merge[1024];
    struct mg_error err = { "" };
    const struct tokenizer_files files = { .vocab = vocab, .merge = merge };
    struct tokenizer *tokenizer;

    if (!shared_file (vocab, sizeof (vocab), "data/vocab/gpt2/encoder.json")
        || !shared_file (merge, sizeof (merge), "data/vocab/gpt2/vocab.bpe")
        || !(tokenizer = tokenizer_create ("GPT2BPETokenizer", &files, &err))) {
        skip (10, "no tokens of GPT-2 at %s, or no library for them", vocab);
        return;
    }
    test_wikitext (tokenizer);
    test_last_words (tokenizer);
    tokenizer_destroy (tokenizer);
}

/* --- HellaSwag --- */

static void test_hellaswag (void)
{
    static const char lines[]
        = "{\"ctx\": \"ab \", \"endings\": [\"c\", \"d\xc3\xa9\"], \"label\": 1, \"x\": 2}\n\n"
          "{\"ctx\": \"q\", \"endings\": [\"r\", \"stu\", \"v\"], \"label\": \"2\"}";
    struct task_config config = { .kind = TASK_HELLASWAG, .seq_length = 16 };
    static const int32_t second[] = { 'a', 'b', ' ', ' ', 'd', 0xc3, 0xa9 };
    const struct scorer_sample score[] = { { 3, 0 }, { 5, 0 }, { 2, 1 }, { 2.5, 1 }, { 2, 0 } };
    struct task_figures f;
    struct mg_error err = { "" };
    struct task t;

    write_file (lines, strlen (lines));
    if (read_bytes (&t, &config, &err) < 0)
        bail_out ("%s", err.text);
    is_int (t.num_questions, 2, "two questions");
    is_int (t.num_samples, 5, "of five endings");
    ok (t.sample[1].count == 7 && t.sample[1].from == 1 && t.sample[1].characters == 2,
        "blanks behind a context are those of the ending");
    ok (memcmp (t.tokens.ids + t.sample[1].first, second, sizeof (second)) == 0, "its tokens");
    ok (t.question[1].first == 2 && t.question[1].endings == 3 && t.question[1].right == 2,
        "the second question");
    task_figures (&t, score, &f);
    // sums: 0 of (3 5), 0 of (2 2.5 2); by characters: 1 of (3 2.5), 1 of (2 0.83 2)
    is_near (f.accuracy, 0, 0, "the first of equal endings counts");
    is_near (f.accuracy_norm, 0.5, 0, "by characters");
    ok (isnan (f.ppl) && isnan (f.loss) && isnan (f.bits_per_byte), "no other figures");
    is_int (f.tokens, 3 + 5 + 2 + 4 + 2, "labels that count");
    task_clear (&t);
}

/* --- figures --- */

static void test_figures (void)
{
    static const char text[] = "a b c\n";
    struct task_config config = { .kind = TASK_WIKITEXT103, .seq_length = 4 };
    const struct scorer_sample score[] = { { 30, 0 }, { 10, 0 } };
    struct task_figures f;
    struct mg_error err = { "" };
    struct task t;

    write_file (text, strlen (text));
    if (read_bytes (&t, &config, &err) < 0)
        bail_out ("%s", err.text);
    is_int (t.num_samples, 2, "two windows");
    task_figures (&t, score, &f);
    is_int (f.tokens, 6, "tokens of the text");
    is_near (f.loss, 40 / 5.0, 1e-12, "loss");
    is_near (f.ppl, exp (8), 1e-9, "perplexity");
    is_near (f.ppl_adjusted, exp (20), 1e-3, "by the words less one, exp (20) at most");
    is_near (f.ppl_paper, exp (40 / 3.0), 1e-6, "by the words");
    is_near (f.bits_per_byte, 40 / log (2) / 6, 1e-12, "bits of a byte");
    ok (isnan (f.accuracy) && isnan (f.accuracy_norm), "no accuracy");
    task_clear (&t);

    config.add_bos = true;
    config.bos = 256;
    if (read_bytes (&t, &config, &err) < 0)
        bail_out ("%s", err.text);
    ok (t.text_tokens == 7 && t.tokens.ids[0] == 256 && t.tokens.ids[1] == 'a',
        "the first token of a text with --add-bos");
    task_clear (&t);
}

static void test_accuracy (void)
{
    static const char lines[] = "{\"tokens\": [1], \"labels\": [2, 3]}\n{\"text\": \"xy\"}\n";
    struct task_config config = { .kind = TASK_LAMBADA, .seq_length = 4 };
    const struct scorer_sample score[] = { { 4, 1 }, { 5, 0 } };
    struct task_figures f;
    struct mg_error err = { "" };
    struct task t;

    write_file (lines, strlen (lines));
    if (read_bytes (&t, &config, &err) < 0)
        bail_out ("%s", err.text);
    task_figures (&t, score, &f);
    is_near (f.accuracy, 0.5, 0, "a text counts if no label is missed");
    is_near (f.loss, 3, 1e-12, "the mean over labels");
    ok (f.tokens == 3 && isnan (f.ppl) && isnan (f.accuracy_norm), "three labels");
    task_clear (&t);
}

/* --- faults --- */

static void test_faults (void)
{
    static const struct {
        enum task_kind kind;
        int overlap;
        const char *text, *want;
    } cases[] = {
        { TASK_PERPLEXITY, 0, "", "0 tokens" },
        { TASK_PERPLEXITY, 0, "x", "1 token, want 2" },
        { TASK_PERPLEXITY, 5, "xyz", "want 1 to the sequence length 4" },
        { TASK_WIKITEXT103, 0, "xyz", "1 word" },
        { TASK_WIKITEXT103, 0, "x \xff y", "byte 2 is not UTF-8" },
        { TASK_PERPLEXITY, 0, "x\xff y", "token 255 is outside" },
        { TASK_LAMBADA, 2, "{}", "no meaning for LAMBADA" },
        { TASK_LAMBADA, 0, "", "no samples" },
        { TASK_LAMBADA, 0, "{}", "line 1: want an object" },
        { TASK_LAMBADA, 0, "\n[1]", "line 2: want an object" },
        { TASK_LAMBADA, 0, "{\"text\": 1}", "want an object" },
        { TASK_LAMBADA, 0, "{\"text\": \"\"}", "no token is to be predicted" },
        { TASK_LAMBADA, 0, "{\"text\": \"x\"}", "want --add-bos" },
        { TASK_LAMBADA, 0, "{\"text\": \"123456\"}", "6 tokens, want one more than" },
        { TASK_LAMBADA, 0, "{\"tokens\": [1], \"labels\": [-1]}", "want ids" },
        { TASK_LAMBADA, 0, "{\"tokens\": [1], \"labels\": [255]}", "token 255 is outside" },
        { TASK_LAMBADA, 0, "{\"tokens\": [1], \"labels\": [1], \"text\": \"x\"}",
          "want an object" },
        { TASK_LAMBADA, 0, "{", "line 1" },
        { TASK_HELLASWAG, 0, "{\"ctx\": \"x\", \"endings\": [\"a\"], \"label\": 0}", "2 to 1000" },
        { TASK_HELLASWAG, 0, "{\"ctx\": \"x\", \"endings\": [\"a\", \"b\"]}", "\"label\"" },
        { TASK_HELLASWAG, 0, "{\"ctx\": \"x\", \"endings\": [\"a\", \"b\"], \"label\": 2}",
          "0 to 1" },
        { TASK_HELLASWAG, 0, "{\"ctx\": \"x\", \"endings\": [\"a\", \"\"], \"label\": 0}",
          "ending 1: want a string" },
        { TASK_HELLASWAG, 0, "{\"ctx\": \"\", \"endings\": [\"a\", \"b\"], \"label\": 0}",
          "ending 0: no token is before" },
    };

    for (size_t i = 0; i < sizeof (cases) / sizeof (cases[0]); i++) {
        struct task_config config = { .kind = cases[i].kind, .seq_length = 4,
                                      .overlap = cases[i].overlap, .vocab_size = 255 };
        struct mg_error err = { "" };
        struct task t;

        write_file (cases[i].text, strlen (cases[i].text));
        ok (read_bytes (&t, &config, &err) == -1 && strstr (err.text, cases[i].want)
                && !t.sample && !t.tokens.ids, "%s: %s", task_name (cases[i].kind), err.text);
    }
}

static void test_names (void)
{
    enum task_kind kind = TASK_NUM_KINDS;
    struct mg_error err = { "" };

    ok (task_parse ("lambada", &kind, &err) == 0 && kind == TASK_LAMBADA, "names in small letters");
    errno = 0;
    ok (task_parse ("MNLI", &kind, &err) == -1 && errno == EINVAL && strstr (err.text, "HELLASWAG"),
        "%s", err.text);
}

int main (void)
{
    char golden[1024];
    int fd = mkstemp (path);
    json_t *all;

    if (fd < 0)
        bail_out ("no file in /tmp");
    close (fd);
    test_names ();
    test_figures ();
    test_accuracy ();
    test_hellaswag ();
    test_faults ();
    if (shared_file (golden, sizeof (golden), "golden/16_eval.json")) {
        all = json_load_file (golden, 0, NULL);
        test_windows (all);
        test_lambada (all);
        json_decref (all);
    } else {
        skip (2, "no reference data at %s", golden);
    }
    test_gpt2 ();
    unlink (path);
    return done_testing ();
}
