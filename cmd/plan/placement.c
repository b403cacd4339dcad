/* placement.c - draw the two grids of ranks, and the nodes
 *
 * A grid has a column for each pipeline stage, a row for each replica, and a frame where they meet.
 * Many rows are drawn in several blocks side by side.
 * In a frame one axis runs across, in lines of at most 'wrap' ranks, and one down: tp and cp of the
 * dense grid, ep and etp of the expert grid.
 */

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "cmd/plan/crossing.h"
#include "cmd/plan/placement.h"
#include "cmd/svg.h"

enum { RANKS_MAX = 4096 };

enum {
    LEFT = 84,
    TOP = 76,     /* of the first part */
    EDGE = 24,    /* right and bottom */
    HEAD = 26,    /* from a part's title to its columns' names */
    NAMES = 14,   /* from the columns' names to the frames */
    CELL = 58,    /* width of a rank, with the space around it */
    BOX = 54,
    LINE = 34,    /* height of a rank in a grid */
    TALL = 46,    /* and on a node */
    SPACE = 4,    /* between ranks */
    PAD = 5,      /* from a frame to its ranks */
    GAP = 12,     /* between frames, and between lines of one */
    VERDICT = 18, /* a line of text */
    NODE_HEAD = 16,
    NODE_COLUMNS = 8,
    NODES_ABREAST = 4,
    NARROWEST = 760,
};

static const char ink[] = "#1f2937", soft[] = "#6b7280", frame[] = "#f3f4f6";
static const char place_ink[] = "#374151"; // of small words on a colour
static const char alarm[] = "#dc2626";

/* Neighbours differ, and dark words can be read on all of them. */
static const char *const node_colors[] = {
    "#93c5fd", "#fcd34d", "#86efac", "#f9a8d4", "#c4b5fd", "#fdba74",
    "#5eead4", "#fca5a5", "#bef264", "#a5b4fc", "#e5d0b1", "#d4d4d8",
};
enum { NUM_COLORS = sizeof (node_colors) / sizeof (node_colors[0]) };

/* The axes of a grid as they are drawn. */
struct view {
    bool expert;
    enum mg_axis across, down;
    const char *title, *across_name, *down_name, *replica_name;
    enum group_kind line, column, whole; /* groups that are marked; GROUP_NUM_KINDS: none */
};
static const struct view views[] = {
    { false, MG_AXIS_TP, MG_AXIS_CP, "dense grid", "tp", "cp", "dp", GROUP_TP, GROUP_NUM_KINDS,
      GROUP_NUM_KINDS },
    { true, MG_AXIS_EP, MG_AXIS_TP, "expert grid", "ep", "etp", "edp", GROUP_EP, GROUP_ETP,
      GROUP_TP_EP },
};
enum { NUM_VIEWS = sizeof (views) / sizeof (views[0]) };

struct picture {
    const struct grid *grid;
    struct svg *svg;
    int tasks_per_node;
    int wrap;
    int *rank; /* [world] of the view that is drawn: of place_of() */
};

static int size_of (const struct picture *p, const struct view *v, enum mg_axis axis)
{
    return grid_size (p->grid, v->expert, axis);
}

static int coord_of (const struct picture *p, const struct view *v, enum mg_axis axis, int rank)
{
    return grid_coord (p->grid, v->expert, axis, rank);
}

static int place_of (const struct picture *p, const struct view *v, int pp, int dp, int down,
                     int across)
{
    return ((pp * size_of (p, v, MG_AXIS_DP) + dp) * size_of (p, v, v->down) + down)
               * size_of (p, v, v->across) + across;
}

static void find_ranks (const struct picture *p, const struct view *v)
{
    for (int rank = 0; rank < grid_world (p->grid); rank++)
        p->rank[place_of (p, v, coord_of (p, v, MG_AXIS_PP, rank),
                          coord_of (p, v, MG_AXIS_DP, rank), coord_of (p, v, v->down, rank),
                          coord_of (p, v, v->across, rank))]
            = rank;
}

static int node_of (const struct picture *p, int rank)
{
    return p->tasks_per_node ? rank / p->tasks_per_node : 0;
}

/* --- sizes --- */

/* Ranks side by side in a frame, and lines of them. */
static int num_columns (const struct picture *p, const struct view *v)
{
    int n = size_of (p, v, v->across);

    return n < p->wrap ? n : p->wrap;
}

static int num_lines (const struct picture *p, const struct view *v)
{
    return (size_of (p, v, v->across) + p->wrap - 1) / p->wrap;
}

static double frame_width (const struct picture *p, const struct view *v)
{
    return num_columns (p, v) * CELL - (CELL - BOX) + 2 * PAD;
}

static double line_height (const struct picture *p, const struct view *v)
{
    return size_of (p, v, v->down) * LINE - SPACE + GAP;
}

static double frame_height (const struct picture *p, const struct view *v)
{
    return num_lines (p, v) * line_height (p, v) - GAP + 2 * PAD;
}

static double block_width (const struct picture *p, const struct view *v)
{
    return LEFT + size_of (p, v, MG_AXIS_PP) * (frame_width (p, v) + GAP);
}

/* Many replicas are drawn as blocks side by side, so many that the picture is not much higher than
 * wide.  This is the number of replicas in one block.
 */
static int block_rows (const struct picture *p, const struct view *v)
{
    int n = size_of (p, v, MG_AXIS_DP), rows = n;

    for (int blocks = 1; blocks <= n; blocks++) {
        double width = blocks * block_width (p, v);

        rows = (n + blocks - 1) / blocks;
        if (rows * (frame_height (p, v) + GAP) <= (width > NARROWEST ? width : NARROWEST))
            break;
    }
    return rows;
}

static int num_blocks (const struct picture *p, const struct view *v)
{
    int rows = block_rows (p, v);

    return (size_of (p, v, MG_AXIS_DP) + rows - 1) / rows;
}

static double view_width (const struct picture *p, const struct view *v)
{
    return num_blocks (p, v) * block_width (p, v) + EDGE;
}

static double view_height (const struct picture *p, const struct view *v)
{
    return HEAD + NAMES + block_rows (p, v) * (frame_height (p, v) + GAP) + EDGE;
}

/* --- ranks --- */

static void begin_rank (const struct picture *p, int rank)
{
    char node[24] = "";

    if (p->tasks_per_node)
        snprintf (node, sizeof (node), ", node %d", node_of (p, rank));
    svg_begin (p->svg, "rank %d: tp %d, cp %d, dp %d, pp %d, etp %d, ep %d, edp %d%s", rank,
               grid_coord (p->grid, false, MG_AXIS_TP, rank),
               grid_coord (p->grid, false, MG_AXIS_CP, rank),
               grid_coord (p->grid, false, MG_AXIS_DP, rank),
               grid_coord (p->grid, false, MG_AXIS_PP, rank),
               grid_coord (p->grid, true, MG_AXIS_TP, rank),
               grid_coord (p->grid, true, MG_AXIS_EP, rank),
               grid_coord (p->grid, true, MG_AXIS_DP, rank), node);
}

static const char *color_of (const struct picture *p, int rank)
{
    return node_colors[node_of (p, rank) % NUM_COLORS];
}

/* A rank in a grid: its number, and its places on the frame's axes that are longer than 1. */
static void draw_rank (const struct picture *p, const struct view *v, int rank, double x,
                       double y)
{
    bool across = size_of (p, v, v->across) > 1, down = size_of (p, v, v->down) > 1;
    double middle = x + BOX / 2.0, height = LINE - SPACE;
    char place[40] = "";
    int len = 0;

    if (across)
        len = snprintf (place, sizeof (place), "%s %d", v->across_name,
                        coord_of (p, v, v->across, rank));
    if (down)
        snprintf (place + len, sizeof (place) - (size_t)len, "%s%s %d", len ? " " : "",
                  v->down_name, coord_of (p, v, v->down, rank));
    begin_rank (p, rank);
    svg_box (p->svg, x, y, BOX, height, color_of (p, rank), NULL);
    svg_text (p->svg, middle, y + height / 2 - (place[0] ? 6 : 0), 12, SVG_MIDDLE, ink, "%d", rank);
    if (place[0])
        svg_text (p->svg, middle, y + height / 2 + 8, 9, SVG_MIDDLE, place_ink, "%s",
                  place);
    svg_end (p->svg);
}

/* --- the grids --- */

static bool is_marked (const struct picture *p, enum group_kind kind, int rank)
{
    struct group group;

    if (kind == GROUP_NUM_KINDS || !p->tasks_per_node)
        return false;
    grid_group_of (p->grid, kind, rank, &group);
    return crossing_is_split (&group, p->tasks_per_node);
}

/* Ranks 'first' to 'last' of a line across, 'down' of them below each other, in red. */
static void mark (const struct picture *p, double x, double y, int first, int last, int down)
{
    double width = (last - first + 1) * CELL - (CELL - BOX);

    svg_box (p->svg, x + PAD + first * CELL - 2, y - 2, width + 4, down * LINE - SPACE + 4, "none",
             alarm);
}

/* Mark the groups of a frame's line number 'line' that lie on several nodes.  A group that is the
 * whole frame has the frame's outline.
 */
static void mark_line (const struct picture *p, const struct view *v, const int *rank, double x,
                       double y, int line)
{
    int n = size_of (p, v, v->across), first = line * p->wrap, down = size_of (p, v, v->down);
    int last = first + p->wrap < n ? first + p->wrap : n; // behind the last of this line

    for (int d = 0; d < down; d++) {
        if ((down > 1 || v->whole == GROUP_NUM_KINDS) && is_marked (p, v->line, rank[d * n]))
            mark (p, x, y + d * LINE, 0, last - first - 1, 1);
    }
    for (int a = first; down > 1 && a < last; a++) {
        if (is_marked (p, v->column, rank[a]))
            mark (p, x, y, a - first, a - first, down);
    }
}

/* One replica of one stage. */
static void draw_frame (const struct picture *p, const struct view *v, int pp, int dp, double x,
                        double y)
{
    const int *rank = &p->rank[place_of (p, v, pp, dp, 0, 0)];
    int n = size_of (p, v, v->across), down = size_of (p, v, v->down);

    svg_box (p->svg, x, y, frame_width (p, v), frame_height (p, v), frame,
             is_marked (p, v->whole, rank[0]) ? alarm : NULL);
    for (int line = 0; line < num_lines (p, v); line++) {
        double top = y + PAD + line * line_height (p, v);

        for (int d = 0; d < down; d++) {
            for (int a = line * p->wrap; a < n && a < (line + 1) * p->wrap; a++)
                draw_rank (p, v, rank[d * n + a], x + PAD + a % p->wrap * CELL, top + d * LINE);
        }
        mark_line (p, v, rank, x, top, line);
    }
}

static void draw_view_title (const struct picture *p, const struct view *v, double y)
{
    svg_text (p->svg, EDGE, y, 13, SVG_START, ink, "%s: %s %d x %s %d x %s %d x pp %d", v->title,
              v->expert ? v->down_name : v->across_name,
              size_of (p, v, v->expert ? v->down : v->across),
              v->expert ? v->across_name : v->down_name,
              size_of (p, v, v->expert ? v->across : v->down), v->replica_name,
              size_of (p, v, MG_AXIS_DP), size_of (p, v, MG_AXIS_PP));
}

static void draw_view (const struct picture *p, const struct view *v, double y)
{
    double width = frame_width (p, v) + GAP, height = frame_height (p, v) + GAP;
    int stages = size_of (p, v, MG_AXIS_PP), rows = block_rows (p, v);

    find_ranks (p, v);
    draw_view_title (p, v, y);
    for (int i = 0; i < num_blocks (p, v) * stages; i++)
        svg_text (p->svg,
                  i / stages * block_width (p, v) + LEFT + i % stages * width + (width - GAP) / 2,
                  y + HEAD, 12, SVG_MIDDLE, ink, "pp %d", i % stages);
    for (int dp = 0; dp < size_of (p, v, MG_AXIS_DP); dp++) {
        double left = dp / rows * block_width (p, v) + LEFT;
        double top = y + HEAD + NAMES + dp % rows * height;

        svg_text (p->svg, left - 12, top + (height - GAP) / 2, 12, SVG_END, ink, "%s %d",
                  v->replica_name, dp);
        for (int pp = 0; pp < stages; pp++)
            draw_frame (p, v, pp, dp, left + pp * width, top);
    }
}

/* --- the nodes --- */

static int num_nodes (const struct picture *p)
{
    return (grid_world (p->grid) + p->tasks_per_node - 1) / p->tasks_per_node;
}

static int node_columns (const struct picture *p)
{
    int n = p->tasks_per_node < grid_world (p->grid) ? p->tasks_per_node : grid_world (p->grid);

    return n < NODE_COLUMNS ? n : NODE_COLUMNS;
}

static double node_width (const struct picture *p)
{
    double width = node_columns (p) * CELL - (CELL - BOX) + 2 * PAD;

    return width < 70 ? 70 : width;
}

static double node_height (const struct picture *p)
{
    int n = p->tasks_per_node < grid_world (p->grid) ? p->tasks_per_node : grid_world (p->grid);

    return NODE_HEAD + (n + NODE_COLUMNS - 1) / NODE_COLUMNS * TALL - SPACE + 2 * PAD;
}

static double nodes_width (const struct picture *p)
{
    int abreast = num_nodes (p) < NODES_ABREAST ? num_nodes (p) : NODES_ABREAST;

    return EDGE + abreast * (node_width (p) + GAP) - GAP + EDGE;
}

static int nodes_abreast (const struct picture *p, double width)
{
    int n = (int)((width - 2 * EDGE + GAP) / (node_width (p) + GAP));

    return n < 1 ? 1 : n;
}

static double nodes_height (const struct picture *p, double width)
{
    int abreast = nodes_abreast (p, width), rows = (num_nodes (p) + abreast - 1) / abreast;

    return NODE_HEAD + rows * (node_height (p) + GAP) + EDGE;
}

/* A rank on its node: its number and its place in both grids. */
static void draw_node_rank (const struct picture *p, int rank, double x, double y)
{
    begin_rank (p, rank);
    svg_box (p->svg, x, y, BOX, TALL - SPACE, color_of (p, rank), NULL);
    svg_text (p->svg, x + BOX / 2.0, y + 10, 12, SVG_MIDDLE, ink, "%d", rank);
    svg_text (p->svg, x + BOX / 2.0, y + 23, 9, SVG_MIDDLE, place_ink, "%d-%d-%d-%d",
              grid_coord (p->grid, false, MG_AXIS_TP, rank),
              grid_coord (p->grid, false, MG_AXIS_CP, rank),
              grid_coord (p->grid, false, MG_AXIS_DP, rank),
              grid_coord (p->grid, false, MG_AXIS_PP, rank));
    svg_text (p->svg, x + BOX / 2.0, y + 34, 9, SVG_MIDDLE, place_ink, "%d-%d-%d-%d",
              grid_coord (p->grid, true, MG_AXIS_TP, rank),
              grid_coord (p->grid, true, MG_AXIS_EP, rank),
              grid_coord (p->grid, true, MG_AXIS_DP, rank),
              grid_coord (p->grid, true, MG_AXIS_PP, rank));
    svg_end (p->svg);
}

static void draw_nodes (const struct picture *p, double y, double width)
{
    int abreast = nodes_abreast (p, width);

    svg_text (p->svg, EDGE, y, 13, SVG_START, ink,
              "nodes of %d tasks; under a rank tp-cp-dp-pp and etp-ep-edp-pp", p->tasks_per_node);
    for (int node = 0; node < num_nodes (p); node++) {
        double left = EDGE + node % abreast * (node_width (p) + GAP);
        double top = y + NODE_HEAD + node / abreast * (node_height (p) + GAP);

        svg_box (p->svg, left, top, node_width (p), node_height (p), frame, soft);
        svg_text (p->svg, left + PAD, top + NODE_HEAD / 2.0 + 2, 11, SVG_START, ink, "node %d",
                  node);
        for (int i = 0; i < p->tasks_per_node; i++) {
            int rank = node * p->tasks_per_node + i;

            if (rank >= grid_world (p->grid))
                break;
            draw_node_rank (p, rank, left + PAD + i % NODE_COLUMNS * CELL,
                            top + NODE_HEAD + PAD + i / NODE_COLUMNS * TALL);
        }
    }
}

/* --- the picture --- */

static void draw_title (const struct picture *p)
{
    svg_text (p->svg, EDGE, 22, 15, SVG_START, ink, "%d ranks, order %s", grid_world (p->grid),
              grid_geometry (p->grid)->order);
    svg_text (p->svg, EDGE, 44, 11, SVG_START, soft,
              "a frame: ranks that share a layer, dense: tp across and cp down, expert: ep across "
              "and etp down%s",
              p->tasks_per_node ? "; a colour: a node; a red outline: a group on several nodes"
                                : "");
}

/* The kinds of group that the last lines speak of. */
static const enum group_kind verdicts[] = { GROUP_TP, GROUP_ETP, GROUP_EP, GROUP_TP_EP };
enum { NUM_VERDICTS = sizeof (verdicts) / sizeof (verdicts[0]) };

static void draw_verdicts (const struct picture *p, double y)
{
    for (int i = 0; i < NUM_VERDICTS; i++) {
        char text[CROSSING_TEXT];
        int count = crossing_describe (p->grid, verdicts[i], p->tasks_per_node, text);

        svg_text (p->svg, EDGE, y + i * VERDICT, 12, SVG_START, count ? alarm : soft, "%s", text);
    }
}

static double max (double a, double b)
{
    return a > b ? a : b;
}

static int draw (struct picture *p, const char *path, struct mg_error *err)
{
    double width = NARROWEST, height = TOP, y = TOP;

    for (int i = 0; i < NUM_VIEWS; i++) {
        width = max (width, view_width (p, &views[i]));
        height += view_height (p, &views[i]);
    }
    if (p->tasks_per_node) {
        width = max (width, nodes_width (p));
        height += nodes_height (p, width) + NUM_VERDICTS * VERDICT + EDGE / 2.0;
    }
    if (!(p->svg = svg_create (path, width, height, "placement of ranks", err)))
        return -1;
    draw_title (p);
    if (p->tasks_per_node) {
        draw_nodes (p, y, width);
        y += nodes_height (p, width);
    }
    for (int i = 0; i < NUM_VIEWS; i++) {
        draw_view (p, &views[i], y);
        y += view_height (p, &views[i]);
    }
    if (p->tasks_per_node)
        draw_verdicts (p, y);
    return svg_close (p->svg, err);
}

int placement_draw (const struct grid *grid, int tasks_per_node, const char *path,
                    struct mg_error *err)
{
    struct picture p = { .grid = grid, .tasks_per_node = tasks_per_node };
    int rc;

    if (grid_world (grid) > RANKS_MAX)
        return mg_error_set (err, ERANGE,
                             "--svg: %d ranks are too many for a picture, want at "
                             "most %d",
                             grid_world (grid), RANKS_MAX);
    p.wrap = grid_size (grid, false, MG_AXIS_PP) > 2 ? 8 : 16;
    if (!(p.rank = calloc ((size_t)grid_world (grid), sizeof (*p.rank))))
        return mg_error_set (err, ENOMEM, "--svg: out of memory");
    rc = draw (&p, path, err);
    free (p.rank);
    return rc;
}
