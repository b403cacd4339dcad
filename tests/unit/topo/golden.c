/* golden.c - groups of Megatron-LM's own code, from the reference data
 *
 * golden/01_rank_groups.json holds what generate_masked_orthogonal_rank_groups,
 * RankGenerator and initialize_model_parallel returned or refused.  Every list is
 * compared through the SHA-256 of its canonical text: a line a group, ranks separated by
 * a blank. Cases of features that are not part of the grid (remat axis, optimizer
 * instances, hybrid context parallelism) are counted and named.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "libcore/topo/grid.h"
#include "libcore/base/sha256.h"
#include "tests/tap/tap.h"

#define COUNT(a) (sizeof (a) / sizeof ((a)[0]))

static int get_int (const json_t *object, const char *key, int otherwise)
{
    json_t *value = json_object_get (object, key);

    return json_is_integer (value) ? (int)json_integer_value (value) : otherwise;
}

static void write_group (FILE *f, const struct group *group, int offset)
{
    for (int i = 0; i < group->size; i++)
        fprintf (f, "%s%d", i ? " " : "", group_at (group, i) + offset);
    fputc ('\n', f);
}

/* Compare text in a memory stream, which is closed and freed, with 'want' = {n, sha256}.
 */
static bool same_text (FILE *f, char **text, size_t *size, int n, const json_t *want)
{
    char hex[SHA256_HEX];

    fclose (f);
    sha256_hex (*text, *size, hex);
    free (*text);
    return n == get_int (want, "n", -1)
           && strcmp (hex, json_string_value (json_object_get (want, "sha256"))) == 0;
}

static bool same_masked (const struct grid *grid, bool expert, unsigned mask, int offset,
                         const json_t *want)
{
    char *text;
    size_t size;
    FILE *f = open_memstream (&text, &size);
    int n = grid_masked_count (grid, expert, mask);

    for (int i = 0; i < n; i++) {
        struct group group;

        grid_masked_at (grid, expert, mask, i, &group);
        write_group (f, &group, offset);
    }
    return same_text (f, &text, &size, n, want);
}

static bool same_kind (const struct grid *grid, enum group_kind kind, int offset,
                       const json_t *want)
{
    char *text;
    size_t size;
    FILE *f = open_memstream (&text, &size);
    int n = grid_group_count (grid, kind);

    for (int i = 0; i < n; i++) {
        struct group group;

        grid_group_at (grid, kind, i, &group);
        write_group (f, &group, offset);
    }
    return same_text (f, &text, &size, n, want);
}

/* generate_masked_orthogonal_rank_groups: sizes without names.  Neighbours with the same
 * mask count as one axis, axes of size 1 as none; what is left fits four real axes.
 */
static void test_masked (const json_t *cases)
{
    static const enum mg_axis axes[] = { MG_AXIS_TP, MG_AXIS_CP, MG_AXIS_DP, MG_AXIS_PP };
    int done = 0, wrong = 0, left_out = 0;
    size_t i;
    json_t *c;

    json_array_foreach (cases, i, c)
    {
        json_t *sizes = json_object_get (c, "parallel_size");
        json_t *masked = json_object_get (c, "mask");
        int size[8] = { 1, 1, 1, 1 }, n = 0;
        bool inside[8] = { false };
        unsigned mask = 0;
        struct geometry g;
        struct grid *grid;

        for (size_t k = 0; k < json_array_size (sizes); k++) {
            int s = (int)json_integer_value (json_array_get (sizes, k));
            bool in = json_is_true (json_array_get (masked, k));

            if (s > 1 && n && inside[n - 1] == in)
                size[n - 1] *= s;
            else if (s > 1)
                size[n] = s, inside[n++] = in;
        }
        if (n > 4) {
            left_out++;
            continue;
        }
        for (int k = 0; k < n; k++)
            mask |= inside[k] ? MG_MASK (axes[k]) : 0;
        geometry_init (&g);
        g.world = get_int (c, "world_size", 0);
        g.tp = size[0], g.cp = size[1], g.pp = size[3];
        if (!(grid = grid_create (&g, NULL)))
            bail_out ("no grid for masked case %zu", i);
        wrong += grid_size (grid, false, MG_AXIS_DP) != size[2];
        wrong += !same_masked (grid, false, mask, 0, json_object_get (c, "out"));
        grid_destroy (grid);
        done++;
    }
    ok (done > 0, "%d lists by mask (%d of five alternating axes left out)", done,
        left_out);
    is_int (wrong, 0, "masked groups are Megatron-LM's");
}

/* Put cp and ep side by side in the order string, so that both grids are alike and a
 * single generator's numbers are those of one of ours.
 */
static void pair_cp_ep (char *order, const char *pair, const char *other)
{
    char out[64] = "", *save = NULL;

    for (char *t = strtok_r (order, "-", &save); t; t = strtok_r (NULL, "-", &save)) {
        if (strcasecmp (t, other) == 0)
            continue;
        strcat (out, out[0] ? "-" : "");
        strcat (out, strcasecmp (t, pair) == 0 ? "cp-ep" : t);
    }
    strcpy (order, out);
}

static unsigned token_mask (const char *token)
{
    char text[64], *save = NULL;
    unsigned mask = 0;

    snprintf (text, sizeof (text), "%s", token);
    for (char *t = strtok_r (text, "-", &save); t; t = strtok_r (NULL, "-", &save)) {
        for (int axis = 0; axis < MG_NUM_AXES; axis++)
            mask |= strcmp (geometry_axis_name (axis), t) == 0 ? MG_MASK (axis) : 0;
    }
    return mask;
}

/* The completed order of a generator against geometry_order(). */
static bool same_order (const struct geometry *g, const char *want)
{
    enum mg_axis axis[MG_NUM_AXES];
    char text[64] = "";

    if (geometry_order (g, axis, NULL) < 0)
        return false;
    for (int i = 0; i < MG_NUM_AXES; i++) {
        strcat (text, geometry_axis_name (axis[i]));
        strcat (text, "-");
    }
    strcat (text, "gtp_remat");
    return strcmp (text, want) == 0;
}

static int compare_generator (const struct geometry *g, bool expert, int offset,
                              json_t *out)
{
    struct geometry paired = *g;
    struct grid *grid;
    const char *token;
    json_t *want;
    int wrong = 0;

    pair_cp_ep (paired.order, expert ? "ep" : "cp", expert ? "cp" : "ep");
    paired.cp = paired.ep = expert ? g->ep : g->cp;
    if (!(grid = grid_create (&paired, NULL)))
        return 1;
    json_object_foreach (out, token, want)
    {
        if (!strstr (token, "gtp_remat"))
            wrong += !same_masked (grid, expert, token_mask (token), offset, want);
    }
    grid_destroy (grid);
    return wrong;
}

static void test_generator (const json_t *cases)
{
    int good = 0, refused = 0, wrong = 0, remat = 0, two_grids = 0;
    size_t i;
    json_t *c;

    json_array_foreach (cases, i, c)
    {
        json_t *a = json_object_get (c, "args");
        const char *order = json_string_value (json_object_get (a, "order"));
        int dp = get_int (a, "dp", 1);
        struct geometry g;

        if (get_int (a, "gtp_remat", 1) > 1 || strstr (order, "gtp_remat")) {
            remat++;
            continue;
        }
        geometry_init (&g);
        g.tp = get_int (a, "tp", 1), g.cp = get_int (a, "cp", 1);
        g.pp = get_int (a, "pp", 1), g.ep = get_int (a, "ep", 1);
        g.world = g.tp * g.cp * g.pp * g.ep * dp;
        snprintf (g.order, sizeof (g.order), "%s", order);
        if (g.ep > 1 && g.cp > 1) {
            two_grids++; // one generator cannot; our two grids can
        } else if (json_object_get (c, "error")) {
            struct mg_error err = { .text = "" };

            wrong += geometry_validate (&g, &err) == 0 || !strstr (err.text, "lacks");
            refused++;
        } else {
            const char *want = json_string_value (json_object_get (c, "order_completed"));
            int differ = !same_order (&g, want);

            differ += compare_generator (&g, g.ep > 1, get_int (a, "rank_offset", 0),
                                         json_object_get (c, "out"));
            if (differ)
                diag ("case %zu: %s", i, order);
            wrong += differ;
            good++;
        }
    }
    diag ("%d with a remat axis and %d with ep and cp in one grid left out", remat,
          two_grids);
    ok (good > 0 && refused > 0, "%d rank generators, %d refused", good, refused);
    is_int (wrong, 0, "their groups, orders and refusals are Megatron-LM's");
}

static const struct {
    const char *name;
    enum group_kind kind;
} mpu_kinds[] = {
    { "DATA_PARALLEL_GROUP_WITH_CP", GROUP_DP_CP },
    { "DATA_PARALLEL_GROUP", GROUP_DP },
    { "CONTEXT_PARALLEL_GROUP", GROUP_CP },
    { "MODEL_PARALLEL_GROUP", GROUP_TP_PP },
    { "TENSOR_MODEL_PARALLEL_GROUP", GROUP_TP },
    { "PIPELINE_MODEL_PARALLEL_GROUP", GROUP_PP },
    { "EMBEDDING_GROUP", GROUP_EMBD },
    { "POSITION_EMBEDDING_GROUP", GROUP_POS_EMBD },
    { "TENSOR_AND_DATA_PARALLEL_GROUP_WITH_CP", GROUP_TP_DP_CP },
    { "TENSOR_AND_DATA_PARALLEL_GROUP", GROUP_TP_DP },
    { "TENSOR_AND_CONTEXT_PARALLEL_GROUP", GROUP_TP_CP },
    { "EXPERT_MODEL_PARALLEL_GROUP", GROUP_EP },
    { "EXPERT_TENSOR_PARALLEL_GROUP", GROUP_ETP },
    { "EXPERT_TENSOR_AND_MODEL_PARALLEL_GROUP", GROUP_TP_EP },
    { "EXPERT_TENSOR_MODEL_PIPELINE_PARALLEL_GROUP", GROUP_TP_EP_PP },
    { "EXPERT_DATA_PARALLEL_GROUP", GROUP_EDP },
};

static int compare_groups (const struct grid *grid, json_t *out, int offset)
{
    int wrong = 0, met = 0;

    for (size_t k = 0; k < COUNT (mpu_kinds); k++) {
        json_t *want = json_object_get (out, mpu_kinds[k].name);

        if (want && !same_kind (grid, mpu_kinds[k].kind, offset, want)) {
            diag ("world %d: %s differs", grid_world (grid), mpu_kinds[k].name);
            wrong++;
        }
        met += want != NULL;
    }
    return wrong + (met < 10);
}

/* Columns of the table of getters, one row a rank; ranks count from 'offset'. */
static int getter (const struct grid *grid, const char *column, int rank, int offset)
{
    static const struct {
        const char *prefix;
        enum group_kind kind;
    } kinds[] = {
        { "tp", GROUP_TP },       { "pp", GROUP_PP },   { "dp", GROUP_DP },
        { "dp_cp", GROUP_DP_CP }, { "cp", GROUP_CP },   { "tp_cp", GROUP_TP_CP },
        { "ep", GROUP_EP },       { "etp", GROUP_ETP }, { "etp_ep", GROUP_TP_EP },
        { "edp", GROUP_EDP },     { "mp", GROUP_TP_PP },
    };
    const char *last = strrchr (column, '_');
    struct group group;

    if (strcmp (column, "in_embd") == 0 || strcmp (column, "in_pos_embd") == 0) {
        grid_group_of (grid, column[3] == 'e' ? GROUP_EMBD : GROUP_POS_EMBD, rank,
                       &group);
        return group.rank >= 0;
    }
    if (strncmp (column, "is_", 3) == 0) {
        int stage = grid_coord (grid, false, MG_AXIS_PP, rank);

        return stage == (column[3] == 'f' ? 0 : grid_size (grid, false, MG_AXIS_PP) - 1);
    }
    for (size_t k = 0; k < COUNT (kinds); k++) {
        if (strlen (kinds[k].prefix) != (size_t)(last - column)
            || strncmp (kinds[k].prefix, column, last - column) != 0)
            continue;
        grid_group_of (grid, kinds[k].kind, rank, &group);
        if (strcmp (last, "_rank") == 0)
            return group.rank;
        if (strcmp (last, "_size") == 0)
            return group.size;
        if (strcmp (last, "_src") == 0 || strcmp (last, "_first") == 0)
            return group_at (&group, 0) + offset;
        if (strcmp (last, "_last") == 0)
            return group_at (&group, group.size - 1) + offset;
        if (strcmp (last, "_next") == 0)
            return group_at (&group, (group.rank + 1) % group.size) + offset;
        if (strcmp (last, "_prev") == 0)
            return group_at (&group, (group.rank + group.size - 1) % group.size)
                   + offset;
    }
    bail_out ("no getter for the column %s", column);
}

static int compare_getters (const struct grid *grid, const json_t *c, int offset)
{
    json_t *columns = json_object_get (c, "rank_table_columns");
    json_t *rows = json_object_get (c, "rank_table");
    int wrong = 0;

    for (size_t i = 0; i < json_array_size (rows) * json_array_size (columns); i++) {
        size_t rank = i / json_array_size (columns), k = i % json_array_size (columns);
        const char *column = json_string_value (json_array_get (columns, k));
        int want
            = (int)json_integer_value (json_array_get (json_array_get (rows, rank), k));
        int got = getter (grid, column, (int)rank, offset);

        if (got != want && wrong++ == 0)
            diag ("world %d, rank %zu: %s is %d, want %d", grid_world (grid), rank,
                  column, got, want);
    }
    return wrong + (json_array_size (rows) != (size_t)grid_world (grid));
}

static struct geometry mpu_geometry (const json_t *c)
{
    json_t *a = json_object_get (c, "args");
    json_t *order = json_object_get (a, "order");
    struct geometry g;

    geometry_init (&g);
    g.world = get_int (c, "world_size", 0);
    g.tp = get_int (a, "tensor_model_parallel_size", 1);
    g.cp = get_int (a, "context_parallel_size", 1);
    g.pp = get_int (a, "pipeline_model_parallel_size", 1);
    g.vpp = get_int (a, "virtual_pipeline_model_parallel_size", 0);
    g.ep = get_int (a, "expert_model_parallel_size", 1);
    g.etp = get_int (a, "expert_tensor_parallel_size", 0);
    if (json_is_string (order))
        snprintf (g.order, sizeof (g.order), "%s", json_string_value (order));
    return g;
}

/* An error that comes from a feature outside the grid. */
static bool foreign_error (const json_t *c)
{
    json_t *a = json_object_get (c, "args");

    return get_int (a, "gtp_remat_size", 1) > 1
           || json_is_true (json_object_get (a, "hybrid_context_parallel"))
           || get_int (a, "num_distributed_optimizer_instances", 1) > 1;
}

static void test_mpu (const json_t *cases)
{
    int good = 0, refused = 0, foreign = 0, tables = 0, wrong = 0;
    size_t i;
    json_t *c;

    json_array_foreach (cases, i, c)
    {
        struct geometry g = mpu_geometry (c);
        bool legal = geometry_check (&g, NULL, NULL) == 0;
        int offset = get_int (json_object_get (c, "args"), "rank_offset", 0);
        struct grid *grid;

        if (json_object_get (c, "error")) {
            // the grid may refuse too, for its own reasons: then it must, in Megatron-LM
            foreign += foreign_error (c);
            wrong += legal && !foreign_error (c);
            refused += !foreign_error (c);
            continue;
        }
        if (!legal || !(grid = grid_create (&g, NULL))) {
            diag ("case %zu is refused", i);
            wrong++;
            continue;
        }
        wrong += compare_groups (grid, json_object_get (c, "out"), offset);
        if (json_object_get (c, "rank_table")) {
            wrong += compare_getters (grid, c, offset);
            tables++;
        }
        good++;
        grid_destroy (grid);
    }
    diag ("%d refusals that are about features outside the grid left out", foreign);
    ok (good > 0 && refused > 0 && tables > 0,
        "%d initialisations, %d with the getters of every rank, %d refused", good, tables,
        refused);
    is_int (wrong, 0, "their groups, ranks and refusals are Megatron-LM's");
}

int main (void)
{
    char path[4096];
    json_error_t error;
    json_t *root;

    if (!shared_file (path, sizeof (path), "golden/01_rank_groups.json"))
        skip_all ("no reference data: %s", path);
    if (!(root = json_load_file (path, 0, &error)))
        bail_out ("%s: %s", path, error.text);
    test_masked (json_object_get (root, "masked_groups"));
    test_generator (json_object_get (root, "rank_generator"));
    test_mpu (json_object_get (root, "initialize_model_parallel"));
    json_decref (root);
    return done_testing ();
}
