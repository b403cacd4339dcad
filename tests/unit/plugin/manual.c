/* manual.c - every row of the plugin's tables has an entry in its manual page
 *
 * An entry is a line of font requests right behind .TP, with the name as a word of it.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugin/conf.h"
#include "plugin/contract.h"
#include "plugin/options.h"
#include "tests/tap/tap.h"

/* Entries of one page, "\n"-separated, as a reader sees them. */
static char *read_entries (const char *page)
{
    const char *top = getenv ("MG_SRCDIR");
    char path[4096], line[1024];
    static char entries[65536];
    size_t len = 0;
    int is_entry = 0;
    FILE *f;

    snprintf (path, sizeof (path), "%s/man/%s", top ? top : ".", page);
    if (!(f = fopen (path, "r")))
        bail_out ("%s cannot be read", path);
    entries[0] = '\0';
    while (fgets (line, sizeof (line), f)) {
        if (is_entry) {
            for (char *p = line; *p && len < sizeof (entries) - 2; p++) {
                if (*p == '\\' && p[1] == '-')
                    continue; // "\-" is a minus
                entries[len++] = *p == '\t' || *p == '"' ? ' ' : *p;
            }
            entries[len] = '\0';
        }
        is_entry = strncmp (line, ".TP", 3) == 0 || strncmp (line, ".TQ", 3) == 0;
    }
    fclose (f);
    return entries;
}

/* Is 'name' a word there, ended by a blank, "=", "," or the line's end? */
static int has_entry (const char *entries, const char *name)
{
    size_t len = strlen (name);

    for (const char *p = strstr (entries, name); p; p = strstr (p + 1, name)) {
        if (p > entries && p[-1] == ' ' && strchr (" =,\n", p[len]))
            return 1;
    }
    return 0;
}

int main (void)
{
    char *entries = read_entries ("megatron-spank.8.in");
    char dashed[80];

    for (int i = 0; i < OPTION_NUM; i++) {
        snprintf (dashed, sizeof (dashed), "--%s", options_table[i].name);
        ok (has_entry (entries, dashed), "megatron-spank(8): %s", dashed);
    }
    for (int i = 0; i < CONF_NUM_KEYS; i++)
        ok (has_entry (entries, conf_keys[i].name), "megatron-spank(8): %s",
            conf_keys[i].name);
    ok (!has_entry (entries, "--megatron"), "a part of a name is no entry");

    entries = read_entries ("megatron-environment.7.in");
    for (int i = 0; i < OPTION_NUM; i++)
        ok (has_entry (entries, options_table[i].env), "megatron-environment(7): %s",
            options_table[i].env);
    for (int i = 0; i < CONTRACT_NUM_VARS; i++)
        ok (has_entry (entries, contract_vars[i].name), "megatron-environment(7): %s",
            contract_vars[i].name);
    return done_testing ();
}
