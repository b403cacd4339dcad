/* gpus.c - the values of Slurm's GPU options: numbers, names, bindings, and what no line may do */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugin/gpus.h"
#include "tests/tap/tap.h"

#define COUNT(a) (sizeof (a) / sizeof ((a)[0]))

/* One option, against a number of tasks on one node, with one task a GPU. */
static int check_one (enum gpus_option option, const char *value, int world,
                      struct mg_error *err)
{
    struct gpus_request r = { .text = { NULL } };
    struct gpus_tasks tasks = { .world = world, .nodes = 1 };

    r.text[option] = value;
    err->text[0] = '\0';
    return gpus_check (&r, &tasks, 1, err);
}

/* The most tasks that are accepted, up to 20000; -1: any number is. */
static int most_tasks (enum gpus_option option, const char *value)
{
    struct mg_error err;
    int low = 0, high = 20000; // accepted, not accepted

    if (check_one (option, value, high, &err) == 0)
        return -1;
    while (high - low > 1) {
        int middle = low + (high - low) / 2;

        if (check_one (option, value, middle, &err) == 0)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static const struct {
    enum gpus_option option;
    const char *value;
    int gpus; /* -1: not known, or none */
} count_rows[] = {
    { GPUS_JOB, "4", 4 }, { GPUS_JOB, "a100:4", 4 }, { GPUS_JOB, "a100:4,h100:2", 6 },
    { GPUS_JOB, "4,", 4 }, { GPUS_JOB, "1K", 1024 }, { GPUS_JOB, "2k", 2048 },
    { GPUS_JOB, "0", -1 }, { GPUS_JOB, "", -1 }, { GPUS_JOB, "a100", -1 },
    { GPUS_JOB, "-4", -1 }, { GPUS_JOB, "4x", -1 }, { GPUS_JOB, "4kk", -1 },
    { GPUS_JOB, "1g.10gb:2", 2 }, { GPUS_JOB, "1g.10gb", -1 },
    { GPUS_JOB, "16777217", -1 }, { GPUS_JOB, "99999999999999999999", -1 },
    { GPUS_JOB, "16777216,16777216", -1 }, { GPUS_JOB, "16777216G", -1 },
    { GPUS_JOB, ":,:=/", -1 }, { GPUS_JOB, "a:b:c:d:4", -1 },
    { GPUS_NODE, "8", 8 }, { GPUS_NODE, "h100:8", 8 },
    { GPUS_GRES, "gpu", 1 }, { GPUS_GRES, "gpu:3", 3 }, { GPUS_GRES, "gpu:a100", 1 },
    { GPUS_GRES, "gpu:a100:3", 3 }, { GPUS_GRES, "gres:gpu:3", 3 },
    { GPUS_GRES, "gres:gpu:a100:2,gres:gpu:h100:2", 4 }, { GPUS_GRES, "gres/gpu:3", 3 },
    { GPUS_GRES, "gres/gpu:a100=3", 3 }, { GPUS_GRES, "GPU:2", 2 },
    { GPUS_GRES, "license:5,gpu:2,bw:9", 2 }, { GPUS_GRES, "gpus:2", -1 },
    { GPUS_GRES, "none", -1 }, { GPUS_GRES, "license:5", -1 }, { GPUS_GRES, "gpu:0", -1 },
    { GPUS_GRES, "gpu:1g.10gb", 1 }, { GPUS_GRES, "gpu:1g.10gb:4", 4 },
    { GPUS_GRES, "mps:100", -1 }, { GPUS_GRES, "gres:mps:100", -1 }, { GPUS_GRES, "mps:0", -1 },
    { GPUS_GRES, "shard:4", -1 }, { GPUS_GRES, "gpu:2,mps:0", 2 },
    { GPUS_TASK, "1", -1 }, { GPUS_TRES_TASK, "gres/gpu:1", -1 }, { GPUS_SOCKET, "1", -1 },
};

static void test_counts (void)
{
    for (size_t i = 0; i < COUNT (count_rows); i++)
        is_int (most_tasks (count_rows[i].option, count_rows[i].value), count_rows[i].gpus,
                "--%s=%s", gpus_options[count_rows[i].option], count_rows[i].value);
}

static const struct {
    enum gpus_option option;
    const char *value;
    bool asked;
} asked_rows[] = {
    { GPUS_JOB, "1", true }, { GPUS_JOB, "0", false }, { GPUS_JOB, "what", true },
    { GPUS_NODE, "2", true }, { GPUS_SOCKET, "2", true }, { GPUS_TASK, "1", true },
    { GPUS_TASKS_EACH, "1", true }, { GPUS_GRES, "none", false }, { GPUS_GRES, "gpu", true },
    { GPUS_GRES, "license:1", false }, { GPUS_GRES, "shard:1", true },
    { GPUS_TRES_TASK, "cpu:4", false }, { GPUS_TRES_TASK, "cpu:4,gres/gpu:1", true },
    { GPUS_BIND, "single:1", false }, { GPUS_TRES_BIND, "gres/gpu:single:1", false },
};

static void test_asked (void)
{
    struct gpus_request none = { .text = { NULL } };

    ok (!gpus_asked (&none), "no option asks for none");
    for (size_t i = 0; i < COUNT (asked_rows); i++) {
        struct gpus_request r = { .text = { NULL } };

        r.text[asked_rows[i].option] = asked_rows[i].value;
        is_int (gpus_asked (&r), asked_rows[i].asked, "--%s=%s asks for a GPU",
                gpus_options[asked_rows[i].option], asked_rows[i].value);
    }
}

static const struct {
    const char *bind;
    int per_node, share;
    bool hides, fits;
} bind_rows[] = {
    { "none", 8, 1, false, true },
    { "verbose,none", 8, 1, false, true },
    { "closest", 8, 1, true, true },
    { "Closest", 8, 1, true, true },
    { "single:1", 8, 1, true, true },
    { "single:2", 8, 1, true, true },
    { "single:2", 8, 2, true, true },
    { "single:8", 1, 1, false, true },
    { "v,single:4", 4, 2, true, true },
    { "per_task:1", 8, 1, true, true },
    { "map_gpu:0,1,2,3", 4, 1, true, true },
    { "map_gpu:0,1,2,3", 5, 1, true, false },
    { "map_gpu:0,1,2,3", 8, 2, true, true },
    { "map_gpu:0,0", 2, 1, true, false },
    { "map_gpu:0*2,1*2", 4, 2, true, true },
    { "map_gpu:0*3,1", 4, 2, true, false },
    { "mask_gpu:0xf", 4, 1, false, true },
    { "mask_gpu:0x1,0x2", 2, 1, true, true },
    { "mask_gpu:0x1", 2, 1, true, false },
    { "mask_gpu:0x3,0xc", 4, 1, true, true },
    { "map_gpu:", 4, 1, true, true },
    { "map_gpu:x", 4, 1, true, true },
    { "map_gpu:0*999999999", 4, 1, true, true },
    { "map_gpu:0*0", 4, 1, true, true },
    { "mask_gpu:", 4, 1, false, true },
    { "", 4, 1, false, true },
    { "a-kind-that-is-too-long:1", 4, 1, false, true },
};

static void test_bind (void)
{
    for (size_t i = 0; i < COUNT (bind_rows); i++) {
        struct gpus_request r = { .text = { [GPUS_TASK] = "1", [GPUS_BIND] = bind_rows[i].bind } };
        struct gpus_tasks tasks = { .world = bind_rows[i].per_node,
                                    .per_node = bind_rows[i].per_node, .nodes = 1 };
        struct mg_error err = { .text = "" };

        is_int (gpus_warn (&r, &tasks, bind_rows[i].share, GPUS_WARN_BIND, &err),
                bind_rows[i].hides, "%s on %d tasks: hides", bind_rows[i].bind,
                bind_rows[i].per_node);
        is_int (gpus_check (&r, &tasks, bind_rows[i].share, &err), bind_rows[i].fits ? 0 : -1,
                "and with %d tasks a GPU fits", bind_rows[i].share);
    }
}

/* Options of four tasks on one node: which is refused, and what is said of it. */
static const struct {
    const char *option[3][2]; /* name and value */
    bool job, exclusive;
    bool fits;
    int warning;      /* the only one, GPUS_NUM_WARNINGS: there is none */
    const char *text; /* that begins the refusal, or the warning */
} joined_rows[] = {
    { { { "gpus", "2" } }, false, false, false, GPUS_NUM_WARNINGS, "4 tasks need 4 GPUs, but " },
    { { { "gpus", "2" } }, true, false, false, GPUS_NUM_WARNINGS, "4 tasks need 4 GPUs, but " },
    { { { "gpus", "2" } }, true, true, true, GPUS_WARN_FEW, "4 tasks need 4 GPUs, but " },
    { { { "gpus", "2" } }, false, true, false, GPUS_NUM_WARNINGS, "4 tasks need 4 GPUs, but " },
    { { { "gpus-per-node", "2" } }, true, false, false, GPUS_NUM_WARNINGS, "4 tasks of a node " },
    { { { "gpus-per-node", "2" } }, true, true, true, GPUS_WARN_FEW, "4 tasks of a node need 4 " },
    { { { "gres", "gres/gpu:2" } }, false, false, false, GPUS_NUM_WARNINGS,
      "4 tasks of a node need 4 GPUs, but --gres=gpu:2 gives 2; " },
    { { { "gres", "gres/license:1,gres/gpu:2" } }, true, false, true, GPUS_WARN_FEW,
      "4 tasks of a node need 4 GPUs, but --gres=license:1,gpu:2 gives 2; " },
    { { { "gres", "gres:gpu:a:1,gres:gpu:b:2" } }, true, false, true, GPUS_WARN_FEW,
      "4 tasks of a node need 4 GPUs, but --gres=gpu:a:1,gpu:b:2 gives 3; " },
    { { { "gres", "gpu:4" } }, true, false, true, GPUS_NUM_WARNINGS, "" },
    { { { "gpus-per-node", "a:2" }, { "gres", "gpu:b:2" } }, false, false, true,
      GPUS_NUM_WARNINGS, "" },
    { { { "gpus", "2" }, { "gpus-per-node", "4" } }, false, false, true, GPUS_NUM_WARNINGS, "" },
    { { { "gpus", "2" }, { "gpus-per-task", "1" }, { "gpu-bind", "none" } }, false, false, true,
      GPUS_NUM_WARNINGS, "" },
    { { { "gpus", "2" }, { "gres", "gpu:0" } }, false, false, false, GPUS_NUM_WARNINGS,
      "4 tasks need 4 GPUs, but --gpus=2 gives 2; " },
    { { { "gpus", "2" }, { "gres", "license:4" } }, false, false, false, GPUS_NUM_WARNINGS,
      "4 tasks need 4 GPUs, but --gpus=2 gives 2; " },
    { { { "gpus-per-task", "1" } }, false, false, true, GPUS_WARN_BIND,
      "--gpus-per-task=1 hides the GPUs of other tasks, " },
    { { { "tres-per-task", "cpu=1,gres/gpu:a=1" } }, false, false, true, GPUS_WARN_BIND,
      "--tres-per-task=cpu=1,gres/gpu:a=1 hides the GPUs of other tasks, " },
    { { { "ntasks-per-gpu", "1" } }, false, false, true, GPUS_WARN_BIND,
      "--ntasks-per-gpu=1 hides the GPUs of other tasks, " },
    { { { "gpus-per-task", "1" }, { "tres-bind", "gres/gpu:none" } }, false, false, true,
      GPUS_NUM_WARNINGS, "" },
    { { { "gpus-per-task", "0" } }, false, false, true, GPUS_NUM_WARNINGS, "" },
    { { { "tres-per-task", "cpu=1" } }, false, false, true, GPUS_NUM_WARNINGS, "" },
    { { { "gpus", "4" }, { "gpu-bind", "single:2" } }, false, false, true, GPUS_WARN_BIND,
      "--gpu-bind=single:2 may put 2 tasks on a GPU, and hides " },
    { { { "gpus", "4" }, { "gpu-bind", "single:9" } }, false, false, true, GPUS_WARN_BIND,
      "--gpu-bind=single:9 may put 4 tasks on a GPU, and hides " },
    { { { "gres", "mps:100" } }, false, false, true, GPUS_WARN_SHARED, "mps is a share of a GPU" },
    { { { "gres", "gres/shard:4" } }, true, true, true, GPUS_WARN_SHARED, "shard is a share of " },
};

static void set_option (struct gpus_request *r, const char *name, const char *value)
{
    for (int i = 0; i < GPUS_NUM; i++) {
        if (strcmp (gpus_options[i], name) == 0) {
            r->text[i] = value;
            return;
        }
    }
    bail_out ("--%s is no option", name);
}

static void test_joined (void)
{
    const struct gpus_tasks tasks = { .world = 4, .per_node = 4, .nodes = 1 };

    for (size_t i = 0; i < COUNT (joined_rows); i++) {
        struct gpus_request r = { .job = joined_rows[i].job,
                                  .exclusive = joined_rows[i].exclusive };
        const char *text = joined_rows[i].text;
        struct mg_error err = { .text = "" }, said;
        int found = GPUS_NUM_WARNINGS, count = 0;

        for (int k = 0; k < 3 && joined_rows[i].option[k][0]; k++)
            set_option (&r, joined_rows[i].option[k][0], joined_rows[i].option[k][1]);
        is_int (gpus_check (&r, &tasks, 1, &err), joined_rows[i].fits ? 0 : -1, "row %zu: fits", i);
        for (int w = 0; joined_rows[i].fits && w < GPUS_NUM_WARNINGS; w++) {
            if (gpus_warn (&r, &tasks, 1, w, &said)) {
                err = said;
                found = w;
                count++;
            }
        }
        ok (found == joined_rows[i].warning && count <= 1, "row %zu: one warning, or none", i);
        ok (strncmp (err.text, text, strlen (text)) == 0 && !*text == !*err.text, "%s", err.text);
    }
}

/* Values of random letters: no line has a control character, and what is refused has a text. */
static void test_random (void)
{
    static const char letters[] = "gpu:,=/0123456789kGres*xmask_single.b\n\x1b\xff";
    int wrong = 0;

    srand (1);
    for (int i = 0; i < 20000; i++) {
        char value[GPUS_NUM][200];
        struct gpus_request r = { .job = rand () % 2, .exclusive = rand () % 2 };
        struct gpus_tasks tasks = { .world = rand () % 20, .nodes = rand () % 4,
                                    .per_node = rand () % 9 };
        struct mg_error err;

        for (int k = 0; k < GPUS_NUM; k++) {
            int len = rand () % (rand () % 8 ? 12 : 199);

            for (int c = 0; c < len; c++)
                value[k][c] = letters[rand () % (sizeof (letters) - 1)];
            value[k][len] = '\0';
            if (rand () % 3)
                r.text[k] = value[k];
        }
        err.text[0] = '\0';
        if (gpus_check (&r, &tasks, 1 + rand () % 3, &err) < 0)
            wrong += err.text[0] == '\0' || strpbrk (err.text, "\n\x1b") != NULL;
        for (int w = 0; w < GPUS_NUM_WARNINGS; w++) {
            err.text[0] = '\0';
            if (gpus_warn (&r, &tasks, 1, w, &err))
                wrong += err.text[0] == '\0' || strpbrk (err.text, "\n\x1b") != NULL;
            else
                wrong += err.text[0] != '\0';
        }
    }
    is_int (wrong, 0, "20000 lines of anything");
}

int main (void)
{
    test_counts ();
    test_asked ();
    test_bind ();
    test_joined ();
    test_random ();
    return done_testing ();
}
