/* cmdline.c - the command line of srun, sbatch or salloc, as the plugin finds it in /proc
 *
 * The programs are linked with --wrap=fopen: "/proc/self/cmdline" is the input here.
 * Input: the place of the first word that is no option, a part that is a batch script, then
 * the words, each behind a zero.  A word "script" names the batch script.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "plugin/cmdline.h"
#include "tests/fuzz/fuzz.h"

static struct fuzz_input line;

FILE *__real_fopen (const char *path, const char *mode);
FILE *__wrap_fopen (const char *path, const char *mode);

FILE *__wrap_fopen (const char *path, const char *mode)
{
    if (line.at && strcmp (path, "/proc/self/cmdline") == 0)
        return line.left > 0 ? fmemopen ((void *)line.at, line.left, "r")
                             : __real_fopen ("/dev/null", "r");
    return __real_fopen (path, mode);
}

static void check_program (void)
{
    int count = -1;
    char **words = cmdline_program (&count);

    if (!words)
        return;
    fuzz_check (count > 0 && words[0][0] != '-', "a program of %d words", count);
    for (int i = 0; i < count; i++)
        fuzz_check (memmem (line.at, line.left, words[i], strlen (words[i])),
                    "word %d was not on the line", i);
    free (words);
}

static void run (const uint8_t *data, size_t size)
{
    struct fuzz_input in = { data, size }, script;
    char *copy;

    optind = fuzz_range (&in, 0, 20);
    script = fuzz_part (&in);
    fuzz_file ("script", script);
    fuzz_check (chdir (fuzz_folder ()) == 0, "no folder");
    copy = fuzz_copy (in);
    line = (struct fuzz_input){ (const uint8_t *)copy, in.left };
    cmdline_is_interactive ();
    cmdline_is_het (true);
    check_program ();
    line.at = NULL;
    free (copy);
}

const struct fuzz_target fuzz_cmdline = { "cmdline", run };
