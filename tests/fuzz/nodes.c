/* nodes.c - Slurm's texts: tasks per node, lists of nodes, the plugin's keys and options
 *
 * Input: a number that chooses, then the text; host names are the words of the text.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/bootstrap/nodes.h"
#include "libcore/topo/place.h"
#include "plugin/conf.h"
#include "plugin/options.h"
#include "tests/fuzz/fuzz.h"

enum { SHORT = 64 };

/* Counts written out one by one are read as the same. */
static void check_tasks (const char *text)
{
    char again[16 * SHORT] = "";
    int nnodes, n;
    int *tasks = place_parse_tasks_per_node (text, &nnodes, NULL), *same;

    if (!tasks)
        return;
    for (int i = 0; i < nnodes; i++)
        fuzz_check (tasks[i] >= 1 && tasks[i] <= GEOMETRY_SIZE_MAX, "node %d", i);
    fuzz_check (place_logical_rank (tasks, nnodes, nnodes, 0) < 0, "a node behind the last");
    if (nnodes <= SHORT) {
        for (int i = 0; i < nnodes; i++)
            sprintf (again + strlen (again), "%s%d", i ? "," : "", tasks[i]);
        same = place_parse_tasks_per_node (again, &n, NULL);
        fuzz_check (same && n == nnodes && memcmp (same, tasks, (size_t)n * sizeof (*same)) == 0,
                    "\"%s\" is not \"%s\"", text, again);
        free (same);
    }
    free (tasks);
}

static void check_hosts (struct fuzz_input in)
{
    int count;
    char **words = fuzz_words (&in, "n0,n1,n2", &count);
    uint32_t *node = malloc ((size_t)count * sizeof (*node));
    int hosts = count > 2 ? count - 2 : 0;

    fuzz_check (node, "out of memory");
    if (hosts > 0 && nodes_number (words + 2, (size_t)hosts, words[1], node) == 0) {
        for (int i = 0; i < hosts; i++) {
            for (int k = 0; k < i && k < SHORT; k++)
                fuzz_check ((node[i] == node[k]) == (strcmp (words[2 + i], words[2 + k]) == 0),
                            "hosts %d and %d", i, k);
        }
    }
    free (node);
    free (words);
}

static void check_conf (const char *text)
{
    char addr[CONF_ADDR_MAX + SHORT];
    struct conf conf, before;
    struct mg_error err = { .text = "" };
    struct options options;

    memset (&conf, 0, sizeof (conf));
    conf_init (&conf);
    before = conf;
    if (conf_set (&conf, text, &err) < 0) {
        fuzz_check (memcmp (&conf, &before, sizeof (conf)) == 0, "\"%s\" changes something",
                    text);
        fuzz_check (err.text[0], "\"%s\" is refused without a word", text);
        for (const char *c = err.text; *c; c++)
            fuzz_check ((unsigned char)*c >= ' ', "a control character: %s", err.text);
    }
    conf_master_addr (&conf, "node17", addr, sizeof (addr), NULL);
    options_init (&options);
    for (int id = 0; id < OPTION_NUM; id++) {
        options_set (&options, (enum option_id)id, OPTION_TYPED, text);
        for (const char *c = options.error[id].text; *c; c++)
            fuzz_check ((unsigned char)*c >= ' ', "a control character: %s",
                        options.error[id].text);
    }
    geometry_check (&options.geometry, NULL, NULL);
}

static void run (const uint8_t *data, size_t size)
{
    struct fuzz_input in = { data, size };
    int choice = (int)(fuzz_number (&in, 1) % 3);
    char *text = fuzz_text (in);

    if (choice == 0)
        check_tasks (text);
    else if (choice == 1)
        check_hosts (in);
    else
        check_conf (text);
    free (text);
}

const struct fuzz_target fuzz_nodes = { "nodes", run };
