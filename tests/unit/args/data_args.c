/* Files that name the data of the three parts. */

#include <errno.h>
#include <string.h>

#include "libcore/args/args.h"
#include "libcore/args/data_args.h"
#include "tests/tap/tap.h"

static const char path[] = "f.json";

/* The words of a part, with blanks between; "-": none. */
static const char *words (const struct data_args *data, enum split_part part)
{
    static char text[200];

    if (!data->part[part])
        return "-";
    text[0] = '\0';
    for (int i = 0; i < data->part[part]->count; i++) {
        strcat (text, i ? " " : "");
        strcat (text, data->part[part]->word[i]);
    }
    return text;
}

static void test_good (void)
{
    static const struct {
        const char *text, *train, *valid, *test;
    } cases[] = {
        { "{\"train\": [\"30\", \"a\", 70, \"b\", 0.5, \"c\"], \"valid\": \" d\\te \","
          " \"test\": null}",
          "30 a 70 b 0.5 c", "d e", "-" },
        { "{\"test\": [\"x\"]}", "-", "-", "x" },
        { "{}", "-", "-", "-" },
    };

    for (size_t i = 0; i < sizeof (cases) / sizeof (cases[0]); i++) {
        struct mg_error err = { "" };
        struct data_args *data
            = data_args_parse (path, cases[i].text, strlen (cases[i].text), &err);

        if (!data)
            bail_out ("%s", err.text);
        is_str (words (data, SPLIT_TRAIN), cases[i].train, "case %zu: training", i);
        is_str (words (data, SPLIT_VALID), cases[i].valid, "validation");
        is_str (words (data, SPLIT_TEST), cases[i].test, "test");
        data_args_destroy (data);
    }
    data_args_destroy (NULL);
}

static void test_bad (void)
{
    static const struct {
        const char *text, *why;
    } cases[] = {
        { "", "no JSON" },
        { "{\n\"train\": [\"a\"", "f.json:2: no JSON" },
        { "[\"a\"]", "no JSON object" },
        { "{\"training\": [\"a\"]}", "key \"training\" is unknown" },
        { "{\"train\": 5}", "\"train\" is neither a list nor a string" },
        { "{\"train\": [[\"a\"]]}", "neither a string nor a number" },
        { "{\"train\": []}", "\"train\" has no word" },
        { "{\"test\": [\"a\", \" \"]}", "\"test\" has a word that is empty" },
        { "{\"valid\": \"  \"}", "\"valid\" has no word" },
        { "{\"train\": \"a\", \"train\": \"b\"}", "no JSON" },
    };

    for (size_t i = 0; i < sizeof (cases) / sizeof (cases[0]); i++) {
        struct mg_error err = { "" };

        ok (!data_args_parse (path, cases[i].text, strlen (cases[i].text), &err) && errno == EINVAL
            && strstr (err.text, cases[i].why), "%s", err.text);
    }
    ok (!data_args_read ("/does/not/exist", NULL) && errno == ENOENT, "no file");
}

/* What goes with it, and that plans do without the file. */
static void test_arguments (void)
{
    static char name[] = "megatron", given[] = "--per-split-data-args-path=/does/not/exist";
    static char other[] = "--data-path=a", valid[] = "--valid-data-path=a", mock[] = "--mock-data";
    char *const others[] = { other, valid, mock };
    char *alone[] = { name, given };
    struct train_args args;
    struct mg_error err = { "" };

    is_int (train_args_read (2, alone, &args, &err), 0, "a plan reads no file%s", err.text);
    train_args_clear (&args);
    ok (train_args_read_run (2, alone, &args, &err) == -1 && errno == ENOENT
        && strstr (err.text, "--per-split-data-args-path: cannot open"), "%s", err.text);
    train_args_clear (&args);
    for (size_t i = 0; i < sizeof (others) / sizeof (others[0]); i++) {
        char *argv[] = { name, given, others[i] };

        ok (train_args_read (3, argv, &args, &err) == -1 && errno == EINVAL
            && strstr (err.text, "exclude each other"), "%s", err.text);
        train_args_clear (&args);
    }
}

int main (void)
{
    test_good ();
    test_bad ();
    test_arguments ();
    return done_testing ();
}
