/* stages.c - layers of every stage, against Megatron-LM's */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "libcore/topo/stages.h"
#include "tests/tap/tap.h"

#define COUNT(a) (sizeof (a) / sizeof ((a)[0]))

enum { TEXT_MAX = 8192 };

/* "3@0 3@6, 3@3 3@9": layers and offset, the virtual stages of rank after rank. */
static void stages_text (const struct stages *s, char *text)
{
    size_t used = 0;

    text[0] = '\0';
    for (int r = 0; r < s->pp; r++) {
        for (int v = 0; v < s->vpp; v++) {
            const struct stage *stage = stages_at (s, r, v);

            used += (size_t)snprintf (text + used, TEXT_MAX - used, "%s%d@%d",
                                      v ? " " : r ? ", " : "", stage->num_layers,
                                      stage->offset);
        }
    }
}

static const struct {
    struct stages_config c;
    const char *want; /* or the text of the refusal */
} splits[] = {
    { { .num_layers = 1, .pp = 1 }, "1@0" },
    { { .num_layers = 4, .pp = 2 }, "2@0, 2@2" },
    { { .num_layers = 8, .pp = 2, .vpp = 2 }, "2@0 2@4, 2@2 2@6" },
    { { .num_layers = 8, .pp = 2, .vpp = 1 }, "4@0, 4@4" },
    { { .num_layers = 8, .pp = 2, .layers_per_vpp = 1 },
      "1@0 1@2 1@4 1@6, 1@1 1@3 1@5 1@7" },
    { { .num_layers = 8, .pp = 2, .layers_per_vpp = 2, .vpp = 2 },
      "2@0 2@4, 2@2 2@6" },
    { { .num_layers = 8, .pp = 2, .layers_per_vpp = 4 }, "4@0, 4@4" },
    { { .num_layers = 7, .pp = 2, .with_embedding = true }, "3@0, 4@3" },
    { { .num_layers = 7, .pp = 2, .with_loss = true }, "4@0, 3@4" },
    { { .num_layers = 6, .pp = 2, .vpp = 2, .with_embedding = true, .with_loss = true },
      "1@0 2@3, 2@1 1@5" },
    { { .num_layers = 2, .pp = 4, .with_embedding = true, .with_loss = true },
      "0@0, 1@0, 1@1, 0@2" },
    { { .num_layers = 5, .pp = 1, .with_embedding = true, .with_loss = true }, "5@0" },
    { { .num_layers = 7, .pp = 2, .layers_per_vpp = 2, .with_loss = true },
      "2@0 2@4, 2@2 1@6" },
    { { .num_layers = 10, .pp = 4, .first = 1 }, "1@0, 3@1, 3@4, 3@7" },
    { { .num_layers = 10, .pp = 4, .last = 4 }, "2@0, 2@2, 2@4, 4@6" },
    { { .num_layers = 10, .pp = 2, .first = 3, .last = 7 }, "3@0, 7@3" },
    { { .num_layers = 5, .pp = 1, .first = 5 }, "5@0" },
    { { .num_layers = 16, .pp = 3, .vpp = 2, .first = 4, .last = 4 },
      "2@0 2@8, 4@2 4@10, 2@6 2@14" },
    { { .num_layers = 2, .pp = 2, .vpp = 2, .layout = "E|t|t|L" }, "0@0 1@1, 1@0 0@2" },
    { { .num_layers = 3, .pp = 2, .layout = "|Ett|tL|" }, "0@0 1@2, 2@0 0@3" },
    { { .num_layers = 12, .pp = 3, .layout = "Et*4|(tt,|)*4L" },
      "4@0 2@8, 2@4 2@10, 2@6 0@12" },
    { { .num_layers = 4, .pp = 4, .layout = "Ett|tt|mm|L", .mtp_layers = 2 },
      "2@0, 2@2, 0@4, 0@4" },
    // refused
    { { .num_layers = 10, .pp = 4 },
      "num-layers 10 is not a multiple of pipeline-model-parallel-size 4; use "
      "8 or 12" },
    { { .num_layers = 3, .pp = 4 },
      "num-layers 3 is not a multiple of pipeline-model-parallel-size 4; use "
      "4" },
    { { .num_layers = 12, .pp = 4, .with_embedding = true, .with_loss = true },
      "num-layers 12 + 2 (embedding and loss) is not a multiple of pipeline-model-"
      "parallel-size 4; use 10 or 14" },
    { { .num_layers = 12, .pp = 2, .vpp = 5 },
      "num-layers 12 is not a multiple of pipeline-model-parallel-size 2 x 5 virtual "
      "stages = 10; use 10 or 20" },
    { { .num_layers = 12, .pp = 2, .layers_per_vpp = 4, .with_loss = true },
      "num-layers 12 + 1 (loss) is not a multiple of pipeline-model-parallel-size 2 x "
      "num-layers-per-virtual-pipeline-stage 4 = 8; use 7 or 15" },
    { { .num_layers = 40, .pp = 8, .layers_per_vpp = 2 },
      "num-layers 40 is not a multiple of pipeline-model-parallel-size 8 x num-layers-"
      "per-virtual-pipeline-stage 2 = 16; use 32 or 48" },
    { { .num_layers = 12, .pp = 1, .vpp = 2 },
      "2 virtual stages need a pipeline: pipeline-model-parallel-size is 1, want 2 or "
      "more" },
    { { .num_layers = 8, .pp = 2, .layers_per_vpp = 2, .vpp = 3 },
      "num-virtual-stages-per-pipeline-rank is 3, but num-layers-per-virtual-pipeline-"
      "stage gives 2" },
    { { .num_layers = 8, .pp = 2, .layers_per_vpp = 2, .first = 4 },
      "num-layers-per-virtual-pipeline-stage excludes decoder-first-pipeline-num-layers "
      "and decoder-last-pipeline-num-layers; use num-virtual-stages-per-pipeline-rank" },
    { { .num_layers = 10, .pp = 2, .first = 4, .last = 5 },
      "decoder-first-pipeline-num-layers 4 and decoder-last-pipeline-num-layers 5 leave "
      "1 of num-layers 10 to 0 ranks; both must be zero, or none" },
    { { .num_layers = 10, .pp = 4, .first = 5, .last = 5 },
      "decoder-first-pipeline-num-layers 5 and decoder-last-pipeline-num-layers 5 leave "
      "0 of num-layers 10 to 2 ranks; both must be zero, or none" },
    { { .num_layers = 10, .pp = 1, .first = 5, .last = 5 },
      "decoder-first-pipeline-num-layers 5 and decoder-last-pipeline-num-layers 5 leave "
      "0 of num-layers 10 to 0 ranks; both must be zero, or none" },
    { { .num_layers = 10, .pp = 4, .first = 2 },
      "num-layers 10 - 2 (first and last rank) is not a multiple of 3 ranks x 1 virtual stage; "
      "use 8 or 11" },
    { { .num_layers = 8, .pp = 6, .first = 2, .last = 3 },
      "num-layers 8 - 5 (first and last rank) is not a multiple of 4 ranks x 1 virtual stage; "
      "use 9" },
    { { .num_layers = 20, .pp = 4, .vpp = 2, .last = 5 },
      "decoder-last-pipeline-num-layers 5 is not a multiple of 2 virtual stages; use 4 "
      "or 6" },
    { { .num_layers = 10, .pp = 2, .vpp = 2, .first = 4, .last = 6 },
      "decoder-first-pipeline-num-layers and decoder-last-pipeline-num-layers leave no "
      "rank between them, which virtual stages need; give one of the two" },
    { { .num_layers = 10, .pp = 2, .first = 4, .with_loss = true },
      "decoder-first-pipeline-num-layers and decoder-last-pipeline-num-layers exclude "
      "account-for-embedding-in-pipeline-split and account-for-loss-in-pipeline-split" },
    { { .num_layers = 2, .pp = 2, .layout = "Et|tL", .first = 1 },
      "pipeline-model-parallel-layout excludes all other options that deal out layers" },
    { { .num_layers = 2, .pp = 2, .layout = "Et|tL", .vpp = 2 },
      "num-virtual-stages-per-pipeline-rank is 2, but pipeline-model-parallel-layout "
      "gives 1" },
    { { .num_layers = 2, .pp = 2, .layout = "Et|t|L" },
      "pipeline-model-parallel-layout \"Et|t|L\": 3 stages are not a multiple of "
      "pipeline-model-parallel-size 2" },
    { { .num_layers = 3, .pp = 2, .layout = "Et|tL" },
      "pipeline-model-parallel-layout \"Et|tL\": has 2 layers (t), but num-layers is 3" },
    { { .num_layers = 2, .pp = 2, .layout = "Etm|tL", .mtp_layers = 1 },
      "pipeline-model-parallel-layout \"Etm|tL\": no layer (t) may follow an m" },
    { { .num_layers = 2, .pp = 2, .layout = "Et|tmL" },
      "pipeline-model-parallel-layout \"Et|tmL\": has 1 layers for multi-token "
      "prediction (m), but mtp-num-layers is 0" },
    { { .num_layers = 2, .pp = 2, .layout = "Ett|m||L", .mtp_layers = 1 },
      "pipeline-model-parallel-layout \"Ett|m||L\": m must be in the last virtual stage "
      "of its rank" },
    { { .num_layers = 2, .pp = 3, .layout = "Ett|m|mL", .mtp_layers = 2 },
      "pipeline-model-parallel-layout \"Ett|m|mL\": all m must be in one stage" },
    { { .num_layers = 1, .pp = 2, .layout = "tE|L" },
      "pipeline-model-parallel-layout \"tE|L\": the first item must be E, the "
      "embedding" },
    { { .num_layers = 1, .pp = 2, .layout = "E|Lt" },
      "pipeline-model-parallel-layout \"E|Lt\": the last item must be L, the loss" },
    { { .num_layers = 1, .pp = 2, .layout = "EEt|L" },
      "pipeline-model-parallel-layout \"EEt|L\": E and L must come once" },
    { { .num_layers = 1, .pp = 1, .layout = "" },
      "pipeline-model-parallel-layout \"\": the first item must be E, the embedding" },
    { { .num_layers = 4, .pp = 2, .layout = "E(t|(t|)*2)*2L" },
      "pipeline-model-parallel-layout \"E(t|(t|)*2)*2L\": \"(\" is not an item here; "
      "want E, t, m, L, |, x*n or (...)*n" },
    { { .num_layers = 4, .pp = 2, .layout = "E t|L" },
      "pipeline-model-parallel-layout \"E t|L\": \" \" is not an item here; want E, t, "
      "m, L, |, x*n or (...)*n" },
    { { .num_layers = 4, .pp = 2, .layout = "Et*99999999999999999999|L" },
      "pipeline-model-parallel-layout \"Et*99999999999999999999|L\": has more than "
      "1048576 items" },
    { { .num_layers = 4, .pp = 2, .layout = "E(t*1000)*1000t*1000000000|L" },
      "pipeline-model-parallel-layout \"E(t*1000)*1000t*1000000000|L\": has more than "
      "1048576 items" },
    { { .num_layers = 4, .pp = 1, .mtp_layers = -1 }, "mtp-num-layers is -1, want at least 0" },
    { { .num_layers = 0, .pp = 1 }, "num-layers is 0, want at least 1" },
    { { .num_layers = 1, .pp = 0 },
      "pipeline-model-parallel-size is 0, want at least 1" },
    { { .num_layers = 1, .pp = 1, .first = -1 },
      "decoder-first-pipeline-num-layers is -1, want at least 0" },
    { { .num_layers = 1 << 24, .pp = 1 << 13, .vpp = 1 << 13 },
      "pipeline-model-parallel-size 8192 x 8192 virtual stages is over 16777216" },
};

/* Layers for multi-token prediction: the last stage's, unless a layout places them. */
static void test_mtp (void)
{
    static const struct {
        struct stages_config c;
        int stage;
    } rows[] = {
        { { .num_layers = 4, .pp = 1, .mtp_layers = 2 }, 0 },
        { { .num_layers = 4, .pp = 4, .mtp_layers = 2 }, 3 },
        { { .num_layers = 8, .pp = 2, .vpp = 2, .mtp_layers = 2 }, 3 },
        { { .num_layers = 10, .pp = 4, .first = 1, .mtp_layers = 2 }, 3 },
        { { .num_layers = 4, .pp = 4, .layout = "Ett|tt|mm|L", .mtp_layers = 2 }, 2 },
        { { .num_layers = 1, .pp = 2, .layout = "Et||mm|L", .mtp_layers = 2 }, 2 },
    };

    for (size_t i = 0; i < COUNT (rows); i++) {
        struct stages *s = stages_create (&rows[i].c, NULL);

        for (int k = 0; s && k < s->pp * s->vpp; k++)
            is_int (s->stage[k].mtp_layers, k == rows[i].stage ? 2 : 0, "row %d, stage %d", (int)i,
                    k);
        ok (s != NULL, "are dealt out");
        stages_destroy (s);
    }
}

static void test_splits (void)
{
    for (size_t i = 0; i < COUNT (splits); i++) {
        struct mg_error err = { .text = "" };
        struct stages *s;
        char text[TEXT_MAX] = "";

        errno = 0;
        s = stages_create (&splits[i].c, &err);
        if (s)
            stages_text (s, text);
        is_str (s ? text : err.text, splits[i].want,
                "%d layers over %d ranks, %d virtual "
                "stages%s%s",
                splits[i].c.num_layers, splits[i].c.pp, splits[i].c.vpp,
                splits[i].c.layout ? ", layout " : "",
                splits[i].c.layout ? splits[i].c.layout : "");
        ok (s || errno == EINVAL, "and errno");
        stages_destroy (s);
    }
    ok (!stages_create (&(struct stages_config){ .num_layers = 1 }, NULL),
        "err may be NULL");
    stages_destroy (NULL);
}

/* Whatever is dealt out is the whole model, once, in order. */
static void test_cover (void)
{
    int bad = 0, legal = 0;

    for (int n = 0; n < 20000; n++) {
        struct stages_config c = {
            .num_layers = 1 + n % 40,
            .pp = 1 + n / 40 % 5,
            .vpp = n / 200 % 4,
            .first = n / 800 % 5,
            .last = n / 4000 % 5,
            .with_embedding = n % 7 == 0,
            .with_loss = n % 11 == 0,
        };
        struct stages *s = stages_create (&c, NULL);
        int next = 0;

        if (!s)
            continue;
        legal++;
        for (int v = 0; v < s->vpp; v++) {
            for (int r = 0; r < s->pp; r++) {
                bad += stages_at (s, r, v)->offset != next
                       || stages_at (s, r, v)->num_layers < 0;
                next += stages_at (s, r, v)->num_layers;
            }
        }
        bad += next != c.num_layers;
        stages_destroy (s);
    }
    ok (legal > 100 && bad == 0, "%d legal splits cover their layers once", legal);
}

static int get_int (json_t *object, const char *key)
{
    return (int)json_integer_value (json_object_get (object, key));
}

static bool get_bool (json_t *object, const char *key)
{
    return json_is_true (json_object_get (object, key));
}

/* The reference refused the whole, or a stage of it. */
static bool is_refused (json_t *one)
{
    json_t *stage;
    size_t i;

    json_array_foreach (json_object_get (one, "stages"), i, stage)
    {
        if (json_object_get (stage, "error"))
            return true;
    }
    return json_object_get (one, "config_error") || json_object_get (one, "parse_error")
           || json_object_get (one, "validate_error");
}

/* Number of stages that differ from the reference's. */
static int compare (const struct stages *s, json_t *list)
{
    json_t *one;
    int bad = (int)json_array_size (list) != s->pp * s->vpp;
    size_t i;

    json_array_foreach (list, i, one)
    {
        const struct stage *stage
            = stages_at (s, get_int (one, "pp_rank"), get_int (one, "vp_stage"));
        json_t *decoder = json_object_get (one, "decoder");

        if (decoder)
            bad += stage->num_layers != get_int (decoder, "n")
                   || stage->offset != get_int (decoder, "offset")
                   || stage->mtp_layers != get_int (json_object_get (one, "mtp"), "n");
        else
            bad += stage->num_layers != get_int (one, "num_layers")
                   || stage->offset != get_int (one, "offset");
    }
    return bad;
}

static void check_case (const char *what, size_t number, const struct stages_config *c,
                        json_t *one)
{
    struct mg_error err = { .text = "" };
    struct stages *s = stages_create (c, &err);

    if (is_refused (one))
        ok (!s && err.text[0], "reference %s %zu is refused: %s", what, number, err.text);
    else if (!s)
        ok (false, "reference %s %zu: %s", what, number, err.text);
    else
        is_int (compare (s, json_object_get (one, "stages")), 0, "reference %s %zu", what,
                number);
    stages_destroy (s);
}

static void check_split (size_t i, json_t *one)
{
    struct stages_config c = {
        .num_layers = get_int (one, "num_layers"),
        .pp = get_int (one, "pp"),
        .vpp = get_int (one, "vpp"),
        .first = get_int (one, "num_layers_in_first_pipeline_stage"),
        .last = get_int (one, "num_layers_in_last_pipeline_stage"),
        .with_embedding = get_bool (one, "account_for_embedding_in_pipeline_split"),
        .with_loss = get_bool (one, "account_for_loss_in_pipeline_split"),
    };
    json_t *covers = json_object_get (one, "covers_all_layers_once");

    if (json_is_false (covers)) {
        // the reference notices nothing, and would train a layer twice or never
        ok (!stages_create (&c, NULL), "reference split %zu: covers no model: refused",
            i);
        return;
    }
    // zero is "not given" here; the command refuses it before
    if (json_is_integer (json_object_get (one, "num_layers_in_first_pipeline_stage"))
        && c.first == 0)
        c.first = -1;
    check_case ("split", i, &c, one);
}

/* A layout that is a list of lists, as the text that means the same. */
static void list_text (json_t *list, char *text)
{
    static const char *const names[] = { "embedding", "decoder", "mtp", "loss" };
    json_t *stage, *value;
    size_t i, k, used = 0;

    json_array_foreach (list, i, stage)
    {
        if (i > 0)
            text[used++] = '|';
        json_array_foreach (stage, k, value)
        {
            int n = 0;

            while (n < 4 && strcmp (json_string_value (value), names[n]) != 0)
                n++;
            text[used++] = "EtmLx"[n];
        }
    }
    text[used] = '\0';
}

static void check_layout (size_t i, json_t *one)
{
    json_t *layout = json_object_get (one, "layout");
    char text[TEXT_MAX];
    struct stages_config c = {
        .num_layers = get_int (one, "num_layers"),
        .pp = get_int (one, "pp"),
        .vpp = get_int (one, "vpp"),
        .layout = text,
        .mtp_layers = get_int (one, "mtp_num_layers"),
    };

    if (json_is_string (layout))
        snprintf (text, sizeof (text), "%s", json_string_value (layout));
    else
        list_text (layout, text);
    check_case ("layout", i, &c, one);
}

static int count_item (json_t *list, const char *item)
{
    json_t *stage, *value;
    int n = 0;
    size_t i, k;

    json_array_foreach (list, i, stage)
    {
        json_array_foreach (stage, k, value)
        {
            n += strcmp (json_string_value (value), item) == 0;
        }
    }
    return n;
}

/* What only reads a layout: where it is legal as well, the layers of each stage. */
static void check_parse (size_t i, json_t *one)
{
    json_t *list = json_object_get (one, "list"), *stage;
    struct stages_config c = {
        .num_layers = count_item (list, "decoder") + (list ? 0 : 1),
        .mtp_layers = count_item (list, "mtp"),
        .pp = list ? (int)json_array_size (list) : 1,
        .layout = json_string_value (json_object_get (one, "str")),
    };
    struct mg_error err = { .text = "" };
    struct stages *s = stages_create (&c, &err);
    int bad = 0;
    size_t k;

    if (!s) {
        // an item that is none if the reference could not read it, else another rule
        is_int (strstr (err.text, "is not an item here") != NULL,
                json_object_get (one, "error") != NULL, "reference text %zu: %s", i,
                err.text);
        return;
    }
    json_array_foreach (list, k, stage)
    {
        int n = 0;

        for (size_t m = 0; m < json_array_size (stage); m++)
            n += strcmp (json_string_value (json_array_get (stage, m)), "decoder") == 0;
        bad += stages_at (s, (int)k, 0)->num_layers != n;
    }
    ok (list && bad == 0, "reference text %zu: %s", i, c.layout);
    stages_destroy (s);
}

static void test_reference (void)
{
    json_error_t json_error;
    json_t *root, *one;
    char path[4096];
    size_t i;

    if (!shared_file (path, sizeof (path), "golden/03_layer_layout.json")) {
        skip (1, "no reference layouts at %s", path);
        return;
    }
    if (!(root = json_load_file (path, 0, &json_error)))
        bail_out ("%s: %s", path, json_error.text);
    json_array_foreach (json_object_get (root, "split"), i, one)
        check_split (i, one);
    json_array_foreach (json_object_get (root, "layouts"), i, one)
        check_layout (i, one);
    json_array_foreach (json_object_get (root, "layout_parse"), i, one)
        check_parse (i, one);
    json_decref (root);
}

int main (void)
{
    test_splits ();
    test_mtp ();
    test_cover ();
    test_reference ();
    return done_testing ();
}
