/* cmdline.c - this process's arguments
 *
 * Reads /proc/self/cmdline, and the batch script for its directives.  Nothing here can fail a
 * job: what cannot be read counts as "no".
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "plugin/cmdline.h"

enum { CMDLINE_LIMIT = 4 << 20 }; /* far above what execve takes from a sane user */

/* All arguments, one after the other, each terminated; NULL if they cannot be read. */
static char *read_args (size_t *len)
{
    size_t size = 0, used = 0;
    char *buf = NULL;
    FILE *f = fopen ("/proc/self/cmdline", "re");

    if (!f)
        return NULL;
    do {
        char *more = realloc (buf, size += 4096);

        if (!more)
            goto error;
        buf = more;
        used += fread (buf + used, 1, size - used - 1, f);
    } while (used == size - 1 && size < CMDLINE_LIMIT);
    fclose (f);
    buf[used] = '\0';
    *len = used;
    return buf;
error:
    free (buf);
    fclose (f);
    return NULL;
}

/* The argument after 'arg', or NULL. */
static const char *next_arg (const char *args, size_t len, const char *arg)
{
    arg += strlen (arg) + 1;
    return arg < args + len ? arg : NULL;
}

bool cmdline_is_interactive (void)
{
    size_t len;
    char *args = read_args (&len);
    const char *arg = args ? next_arg (args, len, args) : NULL;
    bool found = false;

    // only up to the first word: behind it may be a program with an option of that name
    for (; arg && arg[0] == '-' && !found; arg = next_arg (args, len, arg))
        found = strcmp (arg, "--interactive") == 0;
    free (args);
    return found;
}

/* "#SBATCH hetjob", or "packjob" as it was called before. */
static bool line_starts_component (const char *line)
{
    static const char directive[] = "#SBATCH";
    size_t len;

    if (strncmp (line, directive, strlen (directive)) != 0)
        return false;
    line += strlen (directive);
    len = strspn (line, " \t");
    line += len;
    return len && (strncmp (line, "hetjob", 6) == 0 || strncmp (line, "packjob", 7) == 0);
}

/* Directives stand before the first line that is neither blank nor a comment. */
static bool script_is_het (const char *path)
{
    char line[4096];
    struct stat st;
    bool found = false;
    FILE *f;

    if (stat (path, &st) < 0 || !S_ISREG (st.st_mode) || !(f = fopen (path, "re")))
        return false;
    while (!found && fgets (line, sizeof (line), f)) {
        const char *p = line + strspn (line, " \t\r\n");

        if (*p && *p != '#')
            break;
        found = line_starts_component (line);
    }
    fclose (f);
    return found;
}

bool cmdline_is_het (bool sbatch)
{
    size_t len;
    char *args = read_args (&len);
    const char *arg = args ? next_arg (args, len, args) : NULL;
    bool found = false;

    for (; arg && !found; arg = next_arg (args, len, arg))
        found = strcmp (arg, ":") == 0 || (sbatch && script_is_het (arg));
    free (args);
    return found;
}

/* Words from number 'first' on, the texts behind the pointers. */
static char **split (const char *args, size_t len, int first, int *count)
{
    const char *from = args, *p;
    char **words, *copy;
    int n = 0;

    for (int i = 0; i < first && from; i++)
        from = next_arg (args, len, from);
    for (p = from; p; p = next_arg (args, len, p))
        n++;
    if (n == 0 || !(words = malloc (n * sizeof (*words) + (args + len + 1 - from))))
        return NULL;
    copy = memcpy (words + n, from, args + len + 1 - from);
    for (int i = 0; i < n; i++) {
        words[i] = copy;
        copy += strlen (copy) + 1;
    }
    *count = n;
    return words;
}

char **cmdline_program (int *count)
{
    size_t len;
    char *args, **words;

    // srun parses its options with getopt_long() and stops at the program
    if (optind < 1 || cmdline_is_het (false) || !(args = read_args (&len)))
        return NULL;
    words = split (args, len, optind, count);
    free (args);
    // whatever this is, it is not what srun takes for the program
    if (words && words[0][0] == '-') {
        free (words);
        words = NULL;
    }
    return words;
}
