/* locale.c - the library in a program whose locale writes 0,5
 *
 * The same run in the C locale and in another one leaves the same log and files, and can read what
 * the other left.  The program keeps its locale.
 */

#include <errno.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "libcore/base/parse.h"
#include "libcore/data/indexed.h"
#include "megatron/megatron.h"
#include "tests/tap/tap.h"
#include "tests/unit/checkpoint/scratch.h"

/* Compile a locale into the private directory; false if that is not possible. */
static bool make_locale (const char *source, const char *name)
{
    char command[400];

    snprintf (command, sizeof (command), "localedef -i %s -f UTF-8 %s/%s >/dev/null 2>&1", source,
              scratch_path ("."), name);
    setenv ("LOCPATH", scratch_path ("."), 1);
    // localedef's status is 1 also after a warning
    return (system (command) >= 0 && setlocale (LC_ALL, name)) || setlocale (LC_ALL, source);
}

static void make_data (void)
{
    struct mg_error err = { "" };
    struct indexed_builder *b = indexed_builder_create (scratch_path ("data"), INDEXED_UINT8, &err);
    int32_t tokens[400];

    for (int i = 0; i < 400; i++)
        tokens[i] = i * 7 % 250;
    if (!b || indexed_builder_append (b, tokens, 400, &err) < 0
        || indexed_builder_end_sequence (b, &err) < 0 || indexed_builder_end_document (b, &err) < 0
        || indexed_builder_finalize (b, &err) < 0)
        bail_out ("%s", err.text);
    indexed_builder_destroy (b);
}

enum { MAX_ARGS = 60 };

/* Train with more arguments, each one "--name=value" or two words, NULL at the end.  All files have
 * 'tag' in their names.  Returns the log, to be freed, or NULL.
 */
static char *train (const char *tag, const char *const *more)
{
    const char *argv[MAX_ARGS] = {
        "me", "--num-layers", "1", "--hidden-size", "16", "--num-attention-heads", "2",
        "--seq-length", "16", "--tokenizer-type", "ByteLevel", "--micro-batch-size", "2", "--lr",
        "1e-3", "--min-lr", "0.0005", "--split", "100,0,0", "--eval-iters", "0",
        "--position-embedding-type", "rope", "--rotary-percent", "0.5", "--data-path",
        scratch_path ("data"), "--log-interval", "1",
    };
    static const char *const files[] = { "--metrics-file", "--trace-file", "--save",
                                         "--save-weights" };
    char names[4][300];
    struct mg_error err = { "" };
    struct mg_train *t;
    char *log = NULL;
    size_t size;
    FILE *out = open_memstream (&log, &size);
    int argc = 1;
    bool done;

    while (argv[argc])
        argc++;
    for (int i = 0; i < 4; i++) {
        snprintf (names[i], sizeof (names[i]), "%s/%s%s", scratch_path ("."), tag, files[i] + 1);
        argv[argc++] = files[i];
        argv[argc++] = names[i];
    }
    while (*more)
        argv[argc++] = *more++;
    t = mg_train_create (argc, (char **)argv, out, stderr, &err);
    done = t && mg_train_setup (t, &err) == 0 && mg_train_run (t, &err) == 0
           && mg_train_status (t) == 0;
    mg_train_destroy (t);
    fclose (out);
    if (!done)
        diag ("%s: %s", tag, err.text);
    return log; // also of a run that has failed
}

/* A file of the run 'tag', to be freed: NULL if it is not there. */
static char *file_of (const char *tag, const char *file, size_t *len)
{
    char path[400];

    snprintf (path, sizeof (path), "%s%s", tag, file);
    return access (scratch_path (path), R_OK) == 0 ? scratch_read (scratch_path (path), len) : NULL;
}

/* True if a comma stands between two digits. */
static bool has_comma (const char *text)
{
    for (const char *at = text; at && (at = strchr (at, ',')); at++) {
        if (at > text && strchr ("0123456789", at[-1]) && at[1] && strchr ("0123456789", at[1]))
            return true;
    }
    return false;
}

/* Read the losses of the lines of a metrics file: how many. */
static int read_losses (const char *tag, double *loss, int max)
{
    size_t len;
    char *text = file_of (tag, "-metrics-file", &len);
    int n = 0;

    for (char *line = text ? strtok (text, "\n") : NULL; line; line = strtok (NULL, "\n")) {
        json_t *values = json_loads (line, 0, NULL);

        if (!values)
            diag ("no JSON: %s", line);
        if (n < max)
            loss[n++] = json_real_value (json_object_get (values, "lm loss"));
        json_decref (values);
    }
    free (text);
    return n;
}

static bool is_json (const char *tag, const char *file)
{
    size_t len;
    char *text = file_of (tag, file, &len);
    json_t *root = text ? json_loadb (text, len, 0, NULL) : NULL;
    bool good = root != NULL;

    json_decref (root);
    free (text);
    return good;
}

static bool same_files (const char *a, const char *b, const char *file)
{
    size_t a_len = 0, b_len = 0;
    char *x = file_of (a, file, &a_len), *y = file_of (b, file, &b_len);
    bool same = x && y && a_len == b_len && memcmp (x, y, a_len) == 0;

    free (x);
    free (y);
    return same;
}

/* Runs that begin, resume and read weights: in the program's locale, after runs in the C locale. */
static void test_train (const char *name)
{
    const char *begin[] = { "--train-iters=2", "--async-save", NULL };
    char load[300], weights[300];
    const char *resume[] = { "--load", load, "--use-checkpoint-args", "--train-iters=3",
                             "--override-opt-param-scheduler", NULL };
    const char *start[] = { "--load-weights", weights, "--use-checkpoint-args", "--train-iters=1",
                            NULL };
    double want[3] = { 0 }, got[3] = { 1 };
    char *log[5];

    snprintf (load, sizeof (load), "%s/c-save", scratch_path ("."));
    snprintf (weights, sizeof (weights), "%s/here-save-weights", scratch_path ("."));
    setlocale (LC_ALL, "C");
    log[0] = train ("c", begin);
    is_int (read_losses ("c", want, 3), 2, "two iterations in the C locale");
    setlocale (LC_ALL, name);
    log[1] = train ("here", begin);
    ok (!has_comma (log[1]) && strstr (log[1], "lm loss: "), "%s: a log without commas", name);
    setlocale (LC_NUMERIC, "C"); // json_loads() of the test needs it
    is_int (read_losses ("here", got, 3), 2, "metrics can be read");
    ok (want[0] == got[0] && want[1] == got[1], "losses are the same");
    ok (is_json ("here", "-trace-file-0"), "the trace is JSON");
    ok (same_files ("c", "here", "-save-weights"), "weights and what describes them");
    ok (same_files ("c", "here", "-save/iter_0000002/manifest.json")
            || is_json ("here", "-save/iter_0000002/manifest.json"),
        "the manifest is JSON");

    setlocale (LC_ALL, name);
    log[2] = train ("resumed", resume);
    ok (strstr (log[2], "iteration        3/       3"), "a checkpoint of the C locale is read");
    snprintf (load, sizeof (load), "%s/here-save", scratch_path ("."));
    setlocale (LC_ALL, "C");
    log[3] = train ("back", resume);
    ok (strstr (log[3], "iteration        3/       3"), "its checkpoint is read in the C locale");
    setlocale (LC_ALL, name);
    log[4] = train ("weights", start);
    ok (strstr (log[4], "iteration        1/       1"), "weights are read here");
    for (int i = 0; i < 5; i++)
        free (log[i]);
}

/* The program's own function for reports. */
static void report (void *arg, const char *rule, const char *text)
{
    (void)rule, (void)text;
    snprintf (arg, 20, "%.1f", 0.5);
}

/* Errors, arguments and the program's locale before, inside and after. */
static void test_calls (const char *name)
{
    struct mg_geometry *g = mg_geometry_create (NULL);
    struct mg_error err = { "" };
    double value = 0;
    char text[20] = "";
    int n;

    setlocale (LC_ALL, name);
    mg_error_set (&err, EINVAL, "%g", 0.5);
    is_str (err.text, "0.5", "an error's text");
    mg_error_prefix (&err, "%.1f", 1.5);
    is_str (err.text, "1.5: 0.5", "and what is put before it");
    ok (parse_double ("x", "0.25", 0, 1, &value, &err) == 0 && value == 0.25, "a number");
    ok (parse_double ("x", "0,25", 0, 1, &value, &err) < 0, "refused: %s", err.text);
    mg_geometry_set (g, "world", "8", &err);
    mg_geometry_set (g, "tp", "3", &err);
    n = mg_geometry_check (g, report, text);
    ok (n > 0 && strcmp (text, "0,5") == 0, "the program's functions run in its locale: %s", text);
    is_int (mg_geometry_set (g, "order", "TP-CP-EP-DP-PP", &err), 0, "names of axes %s", err.text);
    mg_geometry_destroy (g);
    snprintf (text, sizeof (text), "%.1f", 0.5);
    is_str (text, "0,5", "which stays");
}

int main (void)
{
    unsetenv ("PMIX_NAMESPACE");
    unsetenv ("SLURM_PROCID");
    scratch_create ();
    if (!make_locale ("de_DE", "de_DE.UTF-8"))
        skip_all ("no locale with a comma: localedef, of the package locales, is needed");
    make_data ();
    test_calls ("de_DE.UTF-8");
    test_train ("de_DE.UTF-8");
    if (make_locale ("tr_TR", "tr_TR.UTF-8"))
        test_calls ("tr_TR.UTF-8");
    else
        skip (1, "no locale tr_TR");
    return done_testing ();
}
