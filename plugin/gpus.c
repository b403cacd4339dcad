/* gpus.c - numbers and names in the values of Slurm's GPU options
 *
 * A value is a list of items between commas.  An item of --gpus is "TYPE:N" or "N".  An item of
 * --gres is "gpu:TYPE:N", and names other resources too.  Slurm puts "gres:" or "gres/" in front
 * of it, and newer releases write "=" before the count.
 */

#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/base/parse.h"
#include "libcore/topo/geometry.h"
#include "libcore/topo/order.h"
#include "plugin/gpus.h"

const char *const gpus_options[GPUS_NUM] = {
    [GPUS_JOB] = "gpus",
    [GPUS_NODE] = "gpus-per-node",
    [GPUS_SOCKET] = "gpus-per-socket",
    [GPUS_TASK] = "gpus-per-task",
    [GPUS_GRES] = "gres",
    [GPUS_TRES_TASK] = "tres-per-task",
    [GPUS_TASKS_EACH] = "ntasks-per-gpu",
    [GPUS_BIND] = "gpu-bind",
    [GPUS_TRES_BIND] = "tres-bind",
};

/* Options that say how many GPUs there are, of the job, a node, a socket or a task. */
static const enum gpus_option numbers[] = {
    GPUS_JOB, GPUS_NODE, GPUS_SOCKET, GPUS_TASK, GPUS_GRES, GPUS_TRES_TASK,
};

/* Those of a node and those of a task. */
static const enum gpus_option of_node[] = { GPUS_NODE, GPUS_GRES };
static const enum gpus_option of_task[] = { GPUS_TASK, GPUS_TRES_TASK };

enum { ITEM_MAX = 128, WORDS_MAX = 4, SHOWN_MAX = 80 };

/* One item of a list, cut into words; words[0..count-1] point into 'text'. */
struct item {
    char text[ITEM_MAX];
    char *words[WORDS_MAX];
    int count;
};

/* Cut the item at *list and move *list to the next.  False at the end of the list.  An item that
 * is too long, or has too many words, has none.
 */
static bool next_item (const char **list, struct item *item)
{
    size_t len = strcspn (*list, ",");
    char *save = NULL, *word;

    item->count = 0;
    if (**list == '\0')
        return false;
    if (len < sizeof (item->text)) {
        memcpy (item->text, *list, len);
        item->text[len] = '\0';
        for (word = strtok_r (item->text, ":/=", &save); word;
             word = strtok_r (NULL, ":/=", &save)) {
            if (item->count == WORDS_MAX) {
                item->count = 0;
                break;
            }
            item->words[item->count++] = word;
        }
    }
    *list += len + ((*list)[len] == ',');
    return true;
}

/* A count, with Slurm's letters for 1024 and its powers: 0..GEOMETRY_SIZE_MAX; -1 if it is none. */
static int64_t read_count (const char *word)
{
    static const char letters[] = "kmgt";
    char *end;
    long value;

    if (!isdigit ((unsigned char)*word))
        return -1;
    errno = 0;
    value = strtol (word, &end, 10);
    if (errno || value > GEOMETRY_SIZE_MAX)
        return -1;
    if (*end) {
        const char *letter = strchr (letters, tolower ((unsigned char)*end));

        if (!letter || end[1])
            return -1;
        for (long power = letter - letters; power >= 0 && value <= GEOMETRY_SIZE_MAX; power--)
            value *= 1024;
    }
    return value <= GEOMETRY_SIZE_MAX ? value : -1;
}

/* True if an item of --gres or --tres-per-task is about this resource; *first is the word behind
 * its name.
 */
static bool is_resource (const struct item *item, const char *name, int *first)
{
    int at = item->count > 1 && strcmp (item->words[0], "gres") == 0;

    *first = at + 1;
    return item->count > at && strcasecmp (item->words[at], name) == 0;
}

static bool has_names (enum gpus_option option)
{
    return option == GPUS_GRES || option == GPUS_TRES_TASK;
}

/* GPUs that an option asks for, in its own unit: 0 if it was not given or asks for none, -1 if the
 * number is not known.
 */
static int64_t count_gpus (const struct gpus_request *r, enum gpus_option option)
{
    const char *list = r->text[option];
    struct item item;
    int64_t total = 0;

    while (list && next_item (&list, &item)) {
        int first = 0;
        int64_t count = 1; // of "gpu" and of "gpu:TYPE"

        if (item.count == 0)
            return -1;
        if (has_names (option) && !is_resource (&item, "gpu", &first))
            continue;
        if (item.count > first && isdigit ((unsigned char)*item.words[item.count - 1])
            && (count = read_count (item.words[item.count - 1])) < 0) {
            // "gpu:1g.10gb" is a type without a count, "--gpus=1g.10gb" is wrong
            if (!has_names (option))
                return -1;
            count = 1;
        } else if (!has_names (option) && !isdigit ((unsigned char)*item.words[item.count - 1]))
            return -1;
        total += count;
        if (total > GEOMETRY_SIZE_MAX)
            return -1;
    }
    return total;
}

/* "mps" or "shard" if --gres or --tres-per-task names it, else NULL. */
static const char *find_share (const struct gpus_request *r)
{
    static const char *const names[] = { "mps", "shard" };
    static const enum gpus_option options[] = { GPUS_GRES, GPUS_TRES_TASK };
    struct item item;
    int first;

    for (size_t i = 0; i < sizeof (options) / sizeof (options[0]); i++) {
        const char *list = r->text[options[i]];

        while (list && next_item (&list, &item)) {
            for (size_t k = 0; k < sizeof (names) / sizeof (names[0]); k++) {
                if (is_resource (&item, names[k], &first)
                    && (item.count == first || read_count (item.words[item.count - 1]) != 0))
                    return names[k];
            }
        }
    }
    return NULL;
}

/* True for a type of NVIDIA's instances, such as "1g.10gb" or "a100_3g.20gb". */
static bool is_mig (const char *type)
{
    for (const char *p = strstr (type, "g."); p; p = strstr (p + 1, "g.")) {
        const char *q = p + 2;

        if (p == type || !isdigit ((unsigned char)p[-1]) || !isdigit ((unsigned char)*q))
            continue;
        q += strspn (q, "0123456789");
        if (strncasecmp (q, "gb", 2) == 0)
            return true;
    }
    return false;
}

/* Copy the first type that is a MIG instance. */
static bool find_mig (const struct gpus_request *r, char *type, size_t n)
{
    struct item item;

    for (int option = GPUS_JOB; option <= GPUS_TRES_TASK; option++) {
        const char *list = r->text[option];

        while (list && next_item (&list, &item)) {
            for (int i = 0; i < item.count; i++) {
                if (is_mig (item.words[i])) {
                    order_copy_printable (type, item.words[i], n);
                    return true;
                }
            }
        }
    }
    return false;
}

bool gpus_asked (const struct gpus_request *r)
{
    for (int option = GPUS_JOB; option <= GPUS_TRES_TASK; option++) {
        if (count_gpus (r, option) != 0)
            return true;
    }
    return r->text[GPUS_TASKS_EACH] || find_share (r);
}

/* True at the prefix that Slurm puts before an item of --gres. */
static bool is_prefix (const char *text)
{
    return strncmp (text, "gres:", 5) == 0 || strncmp (text, "gres/", 5) == 0;
}

/* "--gpus=4", as the user may have written it. */
static void show_option (const struct gpus_request *r, enum gpus_option option,
                         char shown[SHOWN_MAX])
{
    const char *text = r->text[option];
    char value[SHOWN_MAX - 24];
    size_t len = 0;

    while (*text && len < sizeof (value) - 1) {
        if (option == GPUS_GRES && is_prefix (text) && (len == 0 || value[len - 1] == ','))
            text += 5;
        else
            value[len++] = *text++;
    }
    value[len] = '\0';
    order_copy_printable (value, value, sizeof (value));
    snprintf (shown, SHOWN_MAX, "--%s=%s", gpus_options[option], value);
}

static int read_size (const char *text)
{
    int value;

    return text && parse_int ("", text, 1, GEOMETRY_SIZE_MAX, &value, NULL) == 0 ? value : 0;
}

static int64_t divide_up (int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* The rule, behind a line about it. */
static const char *rule (int share, char text[60])
{
    if (share == 1)
        return "";
    snprintf (text, 60, " (this site allows %d tasks a GPU)", share);
    return text;
}

/* The settings by which a site allows more tasks on a GPU. */
static const char way_out[] = "tasks_per_gpu= or gpus=off in plugstack.conf";

static int check_job (const struct gpus_request *r, const struct gpus_tasks *tasks, int share,
                      struct mg_error *err)
{
    int64_t gpus = count_gpus (r, GPUS_JOB), need = divide_up (tasks->world, share);
    char shown[SHOWN_MAX], more[60];

    if (gpus <= 0 || gpus >= need) // a world of 0 needs none
        return 0;
    show_option (r, GPUS_JOB, shown);
    return mg_error_set (err, EDOM, "%d tasks need %lld GPUs%s, but %s gives %lld; use --gpus=%lld "
                         "or -n %lld", tasks->world, (long long)need, rule (share, more), shown,
                         (long long)gpus, (long long)need, (long long)gpus * share);
}

static int check_node (const struct gpus_request *r, enum gpus_option option,
                       const struct gpus_tasks *tasks, int share, struct mg_error *err)
{
    int64_t gpus = count_gpus (r, option);
    char shown[SHOWN_MAX], more[60];

    if (gpus <= 0)
        return 0;
    show_option (r, option, shown);
    if (tasks->per_node > gpus * share)
        return mg_error_set (err, EDOM, "%d tasks of a node need %lld GPUs%s, but %s gives %lld; "
                             "use --gpus-per-node=%lld or --ntasks-per-node=%lld",
                             tasks->per_node, (long long)divide_up (tasks->per_node, share),
                             rule (share, more), shown, (long long)gpus,
                             (long long)divide_up (tasks->per_node, share),
                             (long long)gpus * share);
    if (tasks->nodes > 0 && tasks->world > gpus * share * tasks->nodes)
        return mg_error_set (err, EDOM, "%d tasks need %lld GPUs%s, but %s gives %d node%s %lld; "
                             "use --gpus-per-node=%lld or -n %lld", tasks->world,
                             (long long)divide_up (tasks->world, share), rule (share, more),
                             shown, tasks->nodes, tasks->nodes == 1 ? "" : "s",
                             (long long)gpus * tasks->nodes,
                             (long long)divide_up (tasks->world, (int64_t)share * tasks->nodes),
                             (long long)gpus * share * tasks->nodes);
    return 0;
}

/* Returns the one option that says how many GPUs there are; GPUS_NUM if none does, or several do.
 * Slurm joins several numbers by rules of its own: types add up, the number of --gres replaces that
 * of --gpus-per-node, and a step reads the options of its job from variables.
 */
static enum gpus_option find_number (const struct gpus_request *r)
{
    enum gpus_option found = GPUS_NUM;

    for (size_t i = 0; i < sizeof (numbers) / sizeof (numbers[0]); i++) {
        if (count_gpus (r, numbers[i]) == 0)
            continue;
        if (found != GPUS_NUM)
            return GPUS_NUM;
        found = numbers[i];
    }
    return found;
}

/* The number of GPUs against the tasks: 0 if it suffices or is not certain, else -1 and a line.
 * Slurm gives a job GPUs on as many sockets as it likes, so --gpus-per-socket is never certain.
 */
static int check_number (const struct gpus_request *r, const struct gpus_tasks *tasks, int share,
                         struct mg_error *err)
{
    enum gpus_option option = find_number (r);

    if (option == GPUS_JOB)
        return check_job (r, tasks, share, err);
    if (option == GPUS_NODE || option == GPUS_GRES)
        return check_node (r, option, tasks, share, err);
    return 0;
}

/* True if the job may have more GPUs than its options name.  It has all GPUs of its nodes with
 * --exclusive, and in a partition of whole nodes.  A command does not know the partition's setting:
 * jobs there often use --gres, so a number of --gres is never certain.  With other options such a
 * job needs --exclusive, which changes nothing else in that partition.
 */
static bool may_have_more (const struct gpus_request *r)
{
    return r->job && (r->exclusive || find_number (r) == GPUS_GRES);
}

/* The kind of binding, behind "verbose,", and what follows its colon ("" if nothing does). */
static bool bind_kind (const struct gpus_request *r, char kind[16], const char **rest)
{
    const char *text = r->text[GPUS_BIND];
    size_t len;

    if (!text)
        return false;
    if (strncasecmp (text, "verbose,", 8) == 0 || strncasecmp (text, "quiet,", 6) == 0)
        text = strchr (text, ',') + 1;
    else if (strncasecmp (text, "v,", 2) == 0 || strncasecmp (text, "q,", 2) == 0)
        text += 2;
    len = strcspn (text, ":");
    if (len >= 16)
        return false;
    for (size_t i = 0; i < len; i++)
        kind[i] = (char)tolower ((unsigned char)text[i]);
    kind[len] = '\0';
    *rest = text[len] ? text + len + 1 : text + len;
    return true;
}

enum { BIND_LIST_MAX = 256 };

/* The numbers of map_gpu or the masks of mask_gpu, "N" or "N*REPEAT": how many, 0 if the list is
 * not understood.
 */
static int bind_list (const char *text, unsigned long long list[BIND_LIST_MAX])
{
    int n = 0;

    while (*text) {
        char *end;
        unsigned long long value = strtoull (text, &end, 0);
        unsigned long repeat = 1;

        if (end == text)
            return 0;
        if (*end == '*') {
            text = end + 1;
            repeat = strtoul (text, &end, 10);
            if (end == text)
                return 0;
        }
        if ((*end && *end != ',') || repeat > (unsigned long)(BIND_LIST_MAX - n))
            return 0;
        for (; repeat > 0; repeat--)
            list[n++] = value;
        text = *end ? end + 1 : end;
    }
    return n;
}

/* At least this many tasks are on the fullest node. */
static int64_t crowd (const struct gpus_tasks *tasks)
{
    if (tasks->per_node > 0)
        return tasks->per_node;
    return tasks->nodes > 0 ? divide_up (tasks->world, tasks->nodes) : 0;
}

/* Returns the least number of tasks of a node that --gpu-bind puts on one GPU.  "single:N" is no
 * such promise: a task gets a GPU near its CPUs, which may be its own.
 */
static int64_t bind_share (const struct gpus_request *r, const struct gpus_tasks *tasks)
{
    unsigned long long list[BIND_LIST_MAX];
    int64_t n = crowd (tasks), most = 1;
    const char *rest;
    char kind[16];
    int len;

    if (!bind_kind (r, kind, &rest)
        || (strcmp (kind, "map_gpu") != 0 && strcmp (kind, "mask_gpu") != 0)
        || (len = bind_list (rest, list)) == 0)
        return 1;
    for (int i = 0; i < len; i++) {
        int64_t same = 0;

        // a mask of several GPUs leaves the choice to the program
        if (kind[2] == 's' && (list[i] & (list[i] - 1)) != 0)
            return 1;
        for (int k = 0; k < len && k < n; k++) {
            if (list[k] == list[i])
                same += divide_up (n - k, len); // the list begins anew behind its end
        }
        most = same > most ? same : most;
    }
    return most;
}

/* Report that an option puts so many tasks on one GPU. */
static int refuse_share (const struct gpus_request *r, enum gpus_option option, int64_t together,
                         int share, struct mg_error *err)
{
    char shown[SHOWN_MAX];

    if (together <= share)
        return 0;
    show_option (r, option, shown);
    return mg_error_set (err, EDOM, "%s puts %lld tasks on a GPU; at most %d %s allowed here (%s)",
                         shown, (long long)together, share, share == 1 ? "is" : "are", way_out);
}

int gpus_check (const struct gpus_request *r, const struct gpus_tasks *tasks, int share,
                struct mg_error *err)
{
    struct mg_error text;

    if (refuse_share (r, GPUS_TASKS_EACH, read_size (r->text[GPUS_TASKS_EACH]), share, err) < 0)
        return -1;
    if (!may_have_more (r) && check_number (r, tasks, share, &text) < 0)
        return mg_error_set (err, EDOM, "%s (%sfewer GPUs: %s)", text.text,
                             r->job ? "whole nodes: --exclusive; " : "", way_out);
    return refuse_share (r, GPUS_BIND, gpus_asked (r) ? bind_share (r, tasks) : 0, share, err);
}

static bool warn_few (const struct gpus_request *r, const struct gpus_tasks *tasks, int share,
                      struct mg_error *text)
{
    struct mg_error few;

    if (!may_have_more (r) || check_number (r, tasks, share, &few) == 0)
        return false;
    mg_error_set (text, EDOM, "%s; an srun gets more of a whole node by options of its own",
                  few.text);
    return true;
}

static bool warn_unused (const struct gpus_request *r, const struct gpus_tasks *tasks,
                         struct mg_error *text)
{
    char shown[SHOWN_MAX];

    for (size_t i = 0; i < sizeof (of_task) / sizeof (of_task[0]); i++) {
        int64_t gpus = count_gpus (r, of_task[i]);

        if (gpus > 1) {
            show_option (r, of_task[i], shown);
            mg_error_set (text, EDOM, "a task uses one of the %lld GPUs of %s", (long long)gpus,
                          shown);
            return true;
        }
    }
    if (tasks->world > 0 && count_gpus (r, GPUS_JOB) > tasks->world) {
        show_option (r, GPUS_JOB, shown);
        mg_error_set (text, EDOM, "%d task%s %d of the %lld GPUs of %s", tasks->world,
                      tasks->world == 1 ? " uses" : "s use", tasks->world,
                      (long long)count_gpus (r, GPUS_JOB), shown);
        return true;
    }
    for (size_t i = 0; i < sizeof (of_node) / sizeof (of_node[0]); i++) {
        int64_t gpus = count_gpus (r, of_node[i]);

        if (tasks->per_node > 0 && gpus > tasks->per_node) {
            show_option (r, of_node[i], shown);
            mg_error_set (text, EDOM, "%d task%s of a node %s %d of its %lld GPUs of %s",
                          tasks->per_node, tasks->per_node == 1 ? "" : "s",
                          tasks->per_node == 1 ? "uses" : "use", tasks->per_node,
                          (long long)gpus, shown);
            return true;
        }
    }
    return false;
}

/* True if tasks of one node may see different GPUs by --gpu-bind. */
static bool kind_hides (const struct gpus_request *r)
{
    static const char *const kinds[] = { "single", "per_task", "closest", "map_gpu" };
    unsigned long long list[BIND_LIST_MAX];
    const char *rest;
    char kind[16];
    int len;

    if (!bind_kind (r, kind, &rest))
        return false;
    for (size_t i = 0; i < sizeof (kinds) / sizeof (kinds[0]); i++) {
        if (strcmp (kind, kinds[i]) == 0)
            return true;
    }
    if (strcmp (kind, "mask_gpu") != 0)
        return false;
    len = bind_list (rest, list);
    for (int i = 0; i < len; i++) {
        if (list[i] != list[0] || (list[i] & (list[i] - 1)) == 0)
            return true;
    }
    return false;
}

/* Returns the option that hides the GPUs of other tasks, GPUS_NUM if none does.  Without a binding
 * the options that count GPUs by tasks, or tasks by GPUs, bind each task.
 */
static enum gpus_option find_hiding (const struct gpus_request *r)
{
    if (r->text[GPUS_BIND])
        return kind_hides (r) ? GPUS_BIND : GPUS_NUM;
    if (r->text[GPUS_TRES_BIND])
        return GPUS_NUM;
    for (size_t i = 0; i < sizeof (of_task) / sizeof (of_task[0]); i++) {
        if (count_gpus (r, of_task[i]) > 0)
            return of_task[i];
    }
    return read_size (r->text[GPUS_TASKS_EACH]) ? GPUS_TASKS_EACH : GPUS_NUM;
}

static bool warn_hidden (const struct gpus_request *r, const struct gpus_tasks *tasks, int share,
                         struct mg_error *text)
{
    enum gpus_option option = gpus_asked (r) ? find_hiding (r) : GPUS_NUM;
    char shown[SHOWN_MAX], together[60] = "", kind[16];
    const char *rest;

    if (option == GPUS_NUM)
        return false;
    show_option (r, option, shown);
    if (option == GPUS_BIND && bind_kind (r, kind, &rest) && strcmp (kind, "single") == 0) {
        int64_t each = read_size (rest), n = crowd (tasks);

        each = each > n && n > 0 ? n : each;
        if (each > share)
            snprintf (together, sizeof (together), "may put %lld tasks on a GPU, and ",
                      (long long)each);
    }
    mg_error_set (text, EDOM, "%s %shides the GPUs of other tasks, so older releases of NCCL send "
                  "through the host's memory; --gpu-bind=none shows all", shown, together);
    return true;
}

/* True if no node has two of the tasks. */
static bool are_alone (const struct gpus_request *r, const struct gpus_tasks *tasks)
{
    if (tasks->world == 1 || tasks->per_node == 1)
        return true;
    // the controller makes the tasks of these
    return read_size (r->text[GPUS_TASKS_EACH]) == 1
           && (count_gpus (r, GPUS_JOB) == 1 || count_gpus (r, GPUS_NODE) == 1
               || count_gpus (r, GPUS_GRES) == 1);
}

bool gpus_warn (const struct gpus_request *r, const struct gpus_tasks *tasks, int share,
                enum gpus_warning warning, struct mg_error *text)
{
    char type[40];

    switch (warning) {
    case GPUS_WARN_FEW:
        return warn_few (r, tasks, share, text);
    case GPUS_WARN_UNUSED:
        return warn_unused (r, tasks, text);
    case GPUS_WARN_BIND:
        return !are_alone (r, tasks) && warn_hidden (r, tasks, share, text);
    case GPUS_WARN_MIG:
        if (tasks->world == 1 || !find_mig (r, type, sizeof (type)))
            return false;
        mg_error_set (text, EDOM, "%s is an instance of a GPU: instances have no P2P, and NCCL "
                      "joins two of one GPU only with NCCL_MULTI_RANK_GPU_ENABLE=1", type);
        return true;
    case GPUS_WARN_SHARED:
        if (are_alone (r, tasks) || share > 1 || !find_share (r) || count_gpus (r, GPUS_GRES) > 0)
            return false;
        mg_error_set (text, EDOM, "%s is a share of a GPU: NCCL refuses two ranks on one GPU",
                      find_share (r));
        return true;
    case GPUS_NUM_WARNINGS:
        break;
    }
    return false;
}
