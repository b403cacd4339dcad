/* Files of arguments: words, quotes, comments, lines; and what a random text does. */

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libcore/args/file.h"
#include "tests/tap/tap.h"

enum { MAX_WORDS = 8 };

static const struct {
    const char *text;
    const char *word[MAX_WORDS]; /* NULL at the end */
    int line[MAX_WORDS];
} good[] = {
    { "", { NULL }, { 0 } },
    { " \t\r\n\n", { NULL }, { 0 } },
    { "# nothing", { NULL }, { 0 } },
    { "#\n#a b\n  # c\n", { NULL }, { 0 } },
    { "--lr 1e-3", { "--lr", "1e-3" }, { 1, 1 } },
    { "--lr 1e-3\n", { "--lr", "1e-3" }, { 1, 1 } },
    { "--lr\n\n1e-3\n--seed=7", { "--lr", "1e-3", "--seed=7" }, { 1, 3, 4 } },
    { "--lr 1e-3\r\n--seed 7\r\n", { "--lr", "1e-3", "--seed", "7" }, { 1, 1, 2, 2 } },
    { "a # b\nc", { "a", "c" }, { 1, 2 } },
    { "a#b c# #d", { "a#b", "c#" }, { 1, 1 } },
    { "'a # b' \"c # d\"", { "a # b", "c # d" }, { 1, 1 } },
    { "--x='a b'\"c d\"e", { "--x=a bc de" }, { 1 } },
    { "'' \"\" a''", { "", "", "a" }, { 1, 1, 1 } },
    { "'a\\b\"' \"a\\b'\"", { "a\\b\"", "a\\b'" }, { 1, 1 } },
    { "\"a\\\"b\\\\c\\d\"", { "a\"b\\c\\d" }, { 1 } },
    { "\\'a\\ b\\\\ \\# \\\"", { "'a b\\", "#", "\"" }, { 1, 1, 1 } },
    { "a \\\n b \\\r\n c", { "a", "b", "c" }, { 1, 2, 3 } },
    { "a\\\nb c", { "ab", "c" }, { 1, 2 } },
    { "a \\\n", { "a" }, { 1 } },
    { "a \\", { "a" }, { 1 } },
    { "\\\n\\\n# b\nc", { "c" }, { 4 } },
    { "\\\n''", { "" }, { 2 } },
    { "\xef\xbf\xbd \xff", { "\xef\xbf\xbd", "\xff" }, { 1, 1 } },
};

static void test_good (void)
{
    for (size_t i = 0; i < sizeof (good) / sizeof (good[0]); i++) {
        struct mg_error err = { "" };
        struct args_file *f
            = args_file_parse ("f", good[i].text, strlen (good[i].text), &err);
        bool same = f != NULL;
        int n = 0;

        for (; same && good[i].word[n]; n++)
            same = n < f->count && strcmp (f->word[n], good[i].word[n]) == 0
                   && f->line[n] == good[i].line[n];
        ok (same && f->count == n, "text %zu: %d words%s%s", i, n, err.text[0] ? ", " : "",
            err.text);
        ok (!f || n == 0 || !f->word[n], "and their end");
        args_file_destroy (f);
    }
}

static void test_bad (void)
{
    static const struct {
        const char *text;
        size_t size;
        const char *want;
    } bad[] = {
        { "a\n'b\nc'", 7, "f:2: a single quote is not closed on its line" },
        { "a \"b", 4, "f:1: a double quote is not closed on its line" },
        { "\"b\r\n\"", 5, "f:1: a double quote is not closed on its line" },
        { "\"\\\"", 3, "f:1: a double quote is not closed on its line" },
        { "a \\\n\n 'b", 8, "f:3: a single quote is not closed on its line" },
        { "a\nb\0c", 5, "f:2: a zero byte: it is no text" },
        { "", 1, "f:1: a zero byte: it is no text" },
    };

    for (size_t i = 0; i < sizeof (bad) / sizeof (bad[0]); i++) {
        struct mg_error err = { "" };

        ok (!args_file_parse ("f", bad[i].text, bad[i].size, &err) && errno == EINVAL,
            "text %zu is refused", i);
        is_str (err.text, bad[i].want, "says why");
    }
    args_file_destroy (NULL);
}

/* Sizes around the limit, of one word and of many. */
static void test_size (void)
{
    char *text = malloc (ARGS_FILE_MAX + 1);
    struct mg_error err = { "" };
    struct args_file *f;

    if (!text)
        bail_out ("out of memory");
    memset (text, 'a', ARGS_FILE_MAX + 1);
    f = args_file_parse ("f", text, ARGS_FILE_MAX, &err);
    ok (f && f->count == 1 && strlen (f->word[0]) == ARGS_FILE_MAX, "the longest word");
    args_file_destroy (f);
    ok (!args_file_parse ("f", text, ARGS_FILE_MAX + 1, &err) && errno == EFBIG, "%s",
        err.text);
    for (int i = 1; i < ARGS_FILE_MAX; i += 2)
        text[i] = '\n';
    f = args_file_parse ("f", text, ARGS_FILE_MAX, &err);
    ok (f && f->count == ARGS_FILE_MAX / 2 && f->line[f->count - 1] == ARGS_FILE_MAX / 2,
        "as many words as there can be");
    args_file_destroy (f);
    free (text);
}

static void test_files (void)
{
    char dir[] = "/tmp/args-file-XXXXXX", path[64];
    struct mg_error err = { "" };
    struct args_file *file;
    FILE *f;

    if (!mkdtemp (dir))
        bail_out ("no temporary directory");
    snprintf (path, sizeof (path), "%s/a", dir);
    ok (!args_file_read (path, &err) && errno == ENOENT, "%s", err.text);
    ok (!args_file_read (dir, &err) && errno == EISDIR, "%s", err.text);
    f = fopen (path, "w");
    if (!f)
        bail_out ("%s cannot be written", path);
    fputs ("--lr 1 # one\n", f);
    fclose (f);
    file = args_file_read (path, &err);
    ok (file && file->count == 2 && strcmp (file->path, path) == 0, "a file is read");
    args_file_destroy (file);
    if (truncate (path, ARGS_FILE_MAX + 1) < 0)
        bail_out ("%s cannot grow", path);
    ok (!args_file_read (path, &err) && errno == EFBIG, "%s", err.text);
    unlink (path);
    rmdir (dir);
}

/* --- random texts --- */

static uint64_t state = 1;

static unsigned int draw (unsigned int n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned int)(state >> 33) % n;
}

/* Each word in double quotes, a line each; the length. */
static size_t quote (const struct args_file *f, char *text)
{
    char *out = text;

    for (int i = 0; i < f->count; i++) {
        *out++ = '"';
        for (const char *c = f->word[i]; *c; c++) {
            if (*c == '"' || *c == '\\')
                *out++ = '\\';
            *out++ = *c;
        }
        *out++ = '"';
        *out++ = '\n';
    }
    return (size_t)(out - text);
}

/* What was read makes sense, and reads the same when it is written with quotes. */
static bool is_sound (const struct args_file *f, const char *text, size_t size)
{
    static char again[4096];
    struct args_file *other;
    int lines = 1, last = 1;
    bool same;

    for (size_t i = 0; i < size; i++)
        lines += text[i] == '\n';
    for (int i = 0; i < f->count; i++) {
        if (f->line[i] < last || f->line[i] > lines || strchr (f->word[i], '\n'))
            return f->line[i] >= last && f->line[i] <= lines; // a kept end of line: below
        last = f->line[i];
    }
    other = args_file_parse ("again", again, quote (f, again), NULL);
    same = other && other->count == f->count;
    for (int i = 0; same && i < f->count; i++)
        same = strcmp (other->word[i], f->word[i]) == 0 && other->line[i] == i + 1;
    args_file_destroy (other);
    return same;
}

static void test_random (void)
{
    static const char letters[] = "ab-='\"\\\\# \t\n\n\r\v\xff";
    int refused = 0, read = 0, unsound = 0;

    for (int round = 0; round < 50000; round++) {
        char text[64];
        size_t size = draw (sizeof (text));
        struct mg_error err = { "" };
        struct args_file *f;
        int line;

        for (size_t i = 0; i < size; i++)
            text[i] = letters[draw (sizeof (letters))]; // with the zero
        if (draw (8) > 0)
            for (size_t i = 0; i < size; i++)
                text[i] = text[i] ? text[i] : 'c';
        f = args_file_parse ("f", text, size, &err);
        refused += !f;
        read += f != NULL;
        if (f)
            unsound += !is_sound (f, text, size);
        else
            unsound += sscanf (err.text, "f:%d: a ", &line) != 1 || errno != EINVAL;
        args_file_destroy (f);
    }
    ok (unsound == 0, "random texts: %d are not sound", unsound);
    ok (read > 5000 && refused > 5000, "%d are read, %d refused", read, refused);
}

int main (void)
{
    test_good ();
    test_bad ();
    test_size ();
    test_files ();
    test_random ();
    return done_testing ();
}
