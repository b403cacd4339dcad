/* plan_placement.c - draw the dense grid of ranks
 *
 * The picture has a row for each tensor-parallel group, a column for each stage, and a colour for
 * each node.  A line counts the groups that lie on several nodes.
 */

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>

#include "cmd/plan_placement.h"
#include "cmd/svg.h"

enum { RANKS_MAX = 4096 };

enum {
    LEFT = 84,
    TOP = 84,
    EDGE = 24,  /* right and bottom */
    CELL = 38,  /* a rank, with the space around it */
    BOX = 34,
    PAD = 5,    /* from a replica's frame to its ranks */
    GAP = 12,   /* between frames */
    LEGEND = 34,
    NARROWEST = 640,
};

static const char ink[] = "#1f2937", soft[] = "#6b7280", frame[] = "#f3f4f6";
static const char alarm[] = "#dc2626";

/* Neighbours differ, and dark words can be read on all of them. */
static const char *const node_colors[] = {
    "#93c5fd", "#fcd34d", "#86efac", "#f9a8d4", "#c4b5fd", "#fdba74",
    "#5eead4", "#fca5a5", "#bef264", "#a5b4fc", "#e5d0b1", "#d4d4d8",
};
enum { NUM_COLORS = sizeof (node_colors) / sizeof (node_colors[0]) };

struct picture {
    const struct grid *grid;
    struct svg *svg;
    int tasks_per_node;
    int size[MG_NUM_AXES];
    bool experts; /* a rank's expert-parallel place is worth a word */
};

static int rank_at (const struct picture *p, int pp, int dp, int cp, int tp)
{
    const int coord[MG_NUM_AXES] = {
        [MG_AXIS_TP] = tp,
        [MG_AXIS_CP] = cp,
        [MG_AXIS_DP] = dp,
        [MG_AXIS_PP] = pp,
    };

    return grid_rank_at (p->grid, coord);
}

static int node_of (const struct picture *p, int rank)
{
    return p->tasks_per_node ? rank / p->tasks_per_node : 0;
}

static void draw_rank (const struct picture *p, int rank, double x, double y)
{
    int ep = grid_coord (p->grid, true, MG_AXIS_EP, rank);

    char node[24] = "";

    if (p->tasks_per_node)
        snprintf (node, sizeof (node), ", node %d", node_of (p, rank));
    svg_begin (p->svg, "rank %d: tp %d, cp %d, dp %d, pp %d, etp %d, ep %d, edp %d%s",
               rank, grid_coord (p->grid, false, MG_AXIS_TP, rank),
               grid_coord (p->grid, false, MG_AXIS_CP, rank),
               grid_coord (p->grid, false, MG_AXIS_DP, rank),
               grid_coord (p->grid, false, MG_AXIS_PP, rank),
               grid_coord (p->grid, true, MG_AXIS_TP, rank), ep,
               grid_coord (p->grid, true, MG_AXIS_DP, rank), node);
    svg_box (p->svg, x, y, BOX, BOX, node_colors[node_of (p, rank) % NUM_COLORS], NULL);
    svg_text (p->svg, x + BOX / 2.0, y + BOX / 2.0 - (p->experts ? 6 : 0), 12, SVG_MIDDLE,
              ink, "%d", rank);
    if (p->experts)
        svg_text (p->svg, x + BOX / 2.0, y + BOX / 2.0 + 8, 9, SVG_MIDDLE, soft, "ep %d",
                  ep);
    svg_end (p->svg);
}

static double column_width (const struct picture *p)
{
    return p->size[MG_AXIS_TP] * CELL - (CELL - BOX) + 2 * PAD + GAP;
}

static double row_height (const struct picture *p)
{
    return p->size[MG_AXIS_CP] * CELL - (CELL - BOX) + 2 * PAD + GAP;
}

/* One replica of one stage: a row of tensor-parallel ranks for each context-parallel one.
 * Returns the rows that lie on several nodes.
 */
static int draw_replica (const struct picture *p, int pp, int dp)
{
    double x = LEFT + pp * column_width (p), y = TOP + dp * row_height (p);
    int crossing = 0;

    svg_box (p->svg, x, y, column_width (p) - GAP, row_height (p) - GAP, frame, NULL);
    for (int cp = 0; cp < p->size[MG_AXIS_CP]; cp++) {
        double top = y + PAD + cp * CELL;
        bool crosses = false;

        for (int tp = 0; tp < p->size[MG_AXIS_TP]; tp++) {
            int rank = rank_at (p, pp, dp, cp, tp);

            crosses |= node_of (p, rank) != node_of (p, rank_at (p, pp, dp, cp, 0));
            draw_rank (p, rank, x + PAD + tp * CELL, top);
        }
        if (crosses)
            svg_box (p->svg, x + PAD - 2, top - 2, column_width (p) - GAP - 2 * PAD + 4,
                     BOX + 4, "none", alarm);
        crossing += crosses;
    }
    return crossing;
}

static void draw_labels (const struct picture *p)
{
    for (int pp = 0; pp < p->size[MG_AXIS_PP]; pp++)
        svg_text (p->svg, LEFT + pp * column_width (p) + (column_width (p) - GAP) / 2,
                  TOP - 12, 12, SVG_MIDDLE, ink, "pp %d", pp);
    for (int dp = 0; dp < p->size[MG_AXIS_DP]; dp++)
        svg_text (p->svg, LEFT - 12,
                  TOP + dp * row_height (p) + (row_height (p) - GAP) / 2, 12, SVG_END,
                  ink, "dp %d", dp);
}

static void draw_title (const struct picture *p)
{
    const struct geometry *g = grid_geometry (p->grid);

    svg_text (p->svg, EDGE, 22, 15, SVG_START, ink,
              "%d ranks: tp %d x cp %d x dp %d x pp %d, order %s", g->world,
              p->size[MG_AXIS_TP], p->size[MG_AXIS_CP], p->size[MG_AXIS_DP],
              p->size[MG_AXIS_PP], g->order);
    svg_text (p->svg, EDGE, 42, 11, SVG_START, soft,
              "a row of boxes: tensor-parallel ranks%s%s",
              p->size[MG_AXIS_CP] > 1 ? "; rows of a frame: context-parallel ranks" : "",
              p->tasks_per_node ? "; a colour: a node" : "");
}

static void draw_verdict (const struct picture *p, int crossing, double y)
{
    int rows = p->size[MG_AXIS_CP] * p->size[MG_AXIS_DP] * p->size[MG_AXIS_PP];

    if (!p->tasks_per_node)
        return;
    if (crossing)
        svg_text (p->svg, EDGE, y, 12, SVG_START, alarm,
                  "%d of %d tensor-parallel groups lie on several nodes of %d tasks",
                  crossing, rows, p->tasks_per_node);
    else
        svg_text (p->svg, EDGE, y, 12, SVG_START, soft,
                  "every tensor-parallel group lies on one node of %d tasks",
                  p->tasks_per_node);
}

int placement_draw (const struct grid *grid, int tasks_per_node, const char *path,
                    struct mg_error *err)
{
    struct picture p = { .grid = grid, .tasks_per_node = tasks_per_node };
    double width, bottom;
    int crossing = 0;

    if (grid_world (grid) > RANKS_MAX)
        return mg_error_set (err, ERANGE,
                             "--svg: %d ranks are too many for a picture, want at "
                             "most %d",
                             grid_world (grid), RANKS_MAX);
    for (int i = 0; i < MG_NUM_AXES; i++)
        p.size[i] = grid_size (grid, false, i);
    p.experts = grid_size (grid, true, MG_AXIS_EP) > 1;
    width = LEFT + p.size[MG_AXIS_PP] * column_width (&p) + EDGE;
    bottom = TOP + p.size[MG_AXIS_DP] * row_height (&p);
    if (!(p.svg = svg_create (path, width < NARROWEST ? NARROWEST : width,
                              bottom + (tasks_per_node ? LEGEND : EDGE),
                              "placement of ranks", err)))
        return -1;
    draw_title (&p);
    draw_labels (&p);
    for (int pp = 0; pp < p.size[MG_AXIS_PP]; pp++) {
        for (int dp = 0; dp < p.size[MG_AXIS_DP]; dp++)
            crossing += draw_replica (&p, pp, dp);
    }
    draw_verdict (&p, crossing, bottom + 10);
    return svg_close (p.svg, err);
}
