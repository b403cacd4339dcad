/* compare.c - findings that should be the same on all nodes
 *
 * A job is as slow as its slowest rank, and NCCL refuses ranks of different releases.  The texts
 * of some checks are compared; a node without the finding counts as "none".
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/doctor/doctor.h"

enum { NAMES_MAX = 200, VALUE_MAX = 200, TEXT_MAX = 900 };

static const struct {
    const char *check, *advice;
} compared[] = {
    { "driver", "install one driver on all nodes" },
    { "gpus", "use nodes of one kind in a job (--constraint), and see to a GPU that is gone" },
    { "links", "a node has lost links, or is of another kind: nvidia-smi nvlink --status" },
    { "nics", "a port is down, slower, or has another name: ibstat" },
    { "nccl", "use one NCCL on all nodes; ranks of different releases are refused" },
};

static const char *find_text (const json_t *place, const char *check)
{
    const json_t *finding;
    size_t i;

    json_array_foreach (json_object_get (place, "checks"), i, finding) {
        const char *name = json_string_value (json_object_get (finding, "check"));
        const char *text = json_string_value (json_object_get (finding, "text"));

        if (name && text && strcmp (name, check) == 0)
            return text;
    }
    return "none";
}

static const char *name_of (const json_t *place)
{
    const char *where = json_string_value (json_object_get (place, "where"));

    return where ? where : "?";
}

static int compare_names (const void *a, const void *b)
{
    return strcmp (name_of (*(json_t *const *)a), name_of (*(json_t *const *)b));
}

/* Names of the nodes with each text: {text: ["n1", "n2"]}. */
static json_t *group_nodes (json_t *const *nodes, size_t count, const char *check)
{
    json_t *groups = json_object ();

    for (size_t i = 0; i < count; i++) {
        const char *text = find_text (nodes[i], check);

        if (!json_object_get (groups, text))
            json_object_set_new (groups, text, json_array ());
        json_array_append_new (json_object_get (groups, text),
                               json_string (name_of (nodes[i])));
    }
    return groups;
}

/* Write "n1, n2 and 70 more": names of up to NAMES_MAX characters, and the first at least. */
static void list_names (const json_t *names, char text[2 * NAMES_MAX])
{
    size_t count = json_array_size (names), len = 0, i;

    text[0] = '\0';
    for (i = 0; i < count; i++) {
        const char *name = json_string_value (json_array_get (names, i));

        if (i > 0 && len + strlen (", ") + strlen (name) > NAMES_MAX)
            break;
        snprintf (text + len, 2 * NAMES_MAX - len, "%s%.*s", i ? ", " : "", NAMES_MAX, name);
        len = strlen (text);
    }
    if (i < count)
        snprintf (text + len, 2 * NAMES_MAX - len, " and %zu more", count - i);
}

/* Write "VALUE on NODES" for each group, and how many there are that 'text' does not hold. */
static void describe (json_t *groups, char text[TEXT_MAX])
{
    size_t len = 0, left = json_object_size (groups);
    const char *value;
    json_t *nodes;

    text[0] = '\0';
    json_object_foreach (groups, value, nodes) {
        char names[2 * NAMES_MAX], group[VALUE_MAX + 2 * NAMES_MAX + 20];
        bool whole = strlen (value) <= VALUE_MAX;

        list_names (nodes, names);
        snprintf (group, sizeof (group), "%s%.*s%s on %s", len ? "; " : "",
                  whole ? VALUE_MAX : VALUE_MAX - 3, value, whole ? "" : "...", names);
        if (len + strlen (group) + strlen ("; and 18446744073709551615 others") >= TEXT_MAX) {
            snprintf (text + len, TEXT_MAX - len, "; and %zu other%s", left, left == 1 ? "" : "s");
            return;
        }
        strcpy (text + len, group);
        len += strlen (group);
        left--;
    }
}

void doctor_compare (json_t *places, size_t first)
{
    size_t count = json_array_size (places) - first;
    json_t *checks = json_array (), **nodes = calloc (count ? count : 1, sizeof (json_t *));
    char text[TEXT_MAX];

    for (size_t i = 0; nodes && i < count; i++)
        nodes[i] = json_array_get (places, first + i);
    if (nodes && count > 1) {
        qsort (nodes, count, sizeof (json_t *), compare_names); // they came in any order
        for (size_t i = 0; i < sizeof (compared) / sizeof (compared[0]); i++) {
            json_t *groups = group_nodes (nodes, count, compared[i].check);

            describe (groups, text);
            if (json_object_size (groups) > 1)
                doctor_add (checks, DOCTOR_WARN, compared[i].check, compared[i].advice,
                            "differs: %s", text);
            json_decref (groups);
        }
        if (json_array_size (checks) == 0)
            doctor_add (checks, DOCTOR_OK, "alike", NULL, "nothing that was found differs between "
                        "the %zu nodes", count);
        json_array_append_new (places, json_pack ("{s:s, s:O}", "where", "between nodes", "checks",
                                                  checks));
    }
    json_decref (checks);
    free (nodes);
}
