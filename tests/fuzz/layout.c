/* layout.c - pipeline layouts, orders of axes, and a model's arguments on a geometry
 *
 * Input: pipeline size, layers, layers for multi-token prediction, then a part with the
 * order, then words, one a line, the first of which is the layout.
 */

#include <stdlib.h>
#include <string.h>

#include "libcore/topo/geometry.h"
#include "libcore/topo/grid.h"
#include "libcore/topo/margs.h"
#include "libcore/topo/order.h"
#include "libcore/topo/stages.h"
#include "plugin/model.h"
#include "tests/fuzz/fuzz.h"

enum { MAX_SIZE = 64 };

static void check_layout (const struct stages_config *config)
{
    struct stages *stages = stages_create (config, NULL);
    int layers = 0, mtp = 0;

    if (!stages)
        return;
    fuzz_check (stages->pp == config->pp && stages->vpp >= 1, "%d stages on a rank",
                stages->vpp);
    for (int i = 0; i < stages->pp * stages->vpp; i++) {
        fuzz_check (stages->stage[i].offset == layers, "stage %d begins with layer %d", i,
                    stages->stage[i].offset);
        layers += stages->stage[i].num_layers;
        mtp += stages->stage[i].mtp_layers;
    }
    fuzz_check (layers == config->num_layers && mtp == config->mtp_layers,
                "%d and %d layers are dealt out", layers, mtp);
    stages_destroy (stages);
}

/* Ranks have their places in the grid, and the places their ranks. */
static void check_grid (const struct geometry *g)
{
    struct grid *grid = grid_create (g, NULL);
    struct group group;

    fuzz_check (grid, "a geometry that keeps its rules has no grid");
    for (int rank = 0; rank < g->world; rank++) {
        grid_group_of (grid, GROUP_TP, rank, &group);
        fuzz_check (group.size == g->tp && group_at (&group, group.rank) == rank,
                    "rank %d is not in its group", rank);
    }
    grid_destroy (grid);
}

static void check_order (struct fuzz_input *in, const char *text)
{
    struct geometry g;
    struct order order;

    order_scan (text, &order);
    fuzz_check (order.naxes >= 0 && order.naxes <= MG_NUM_AXES, "%d axes", order.naxes);
    geometry_init (&g);
    g.tp = fuzz_range (in, 1, 4);
    g.cp = fuzz_range (in, 1, 3);
    g.pp = fuzz_range (in, 1, 3);
    g.ep = fuzz_range (in, 1, 4);
    g.etp = fuzz_range (in, 0, 4);
    g.world = g.tp * g.cp * g.pp * fuzz_range (in, 1, 4);
    if (geometry_set (&g, "order", "--order", text, NULL) < 0)
        return;
    if (geometry_validate (&g, NULL) == 0 && g.world <= MAX_SIZE)
        check_grid (&g);
}

static void run (const uint8_t *data, size_t size)
{
    struct fuzz_input in = { data, size }, part;
    struct stages_config config = { .pp = fuzz_range (&in, 1, 16) };
    struct geometry g;
    struct mg_error text = { .text = "" };
    struct margs args;
    char *order, **words;
    int count;

    config.num_layers = fuzz_range (&in, 1, 64);
    config.mtp_layers = fuzz_range (&in, 0, 2);
    part = fuzz_part (&in);
    order = fuzz_text (part);
    check_order (&part, order);
    words = fuzz_words (&in, "megatron", &count);
    config.layout = count > 1 ? words[1] : NULL;
    check_layout (&config);
    geometry_init (&g);
    margs_init (&args);
    margs_scan (&args, count - 1, words + 1);
    margs_merge (&args, &g, NULL, NULL, NULL);
    if (geometry_check (&g, NULL, NULL) == 0)
        margs_check (&args, &g, NULL, NULL);
    geometry_init (&g);
    g.tp = config.pp;
    model_check (&g, count, words, &text);
    fuzz_check (!strpbrk (text.text, "\n\r\t"), "a verdict of several lines: %s", text.text);
    free (words);
    free (order);
}

const struct fuzz_target fuzz_layout = { "layout", run };
