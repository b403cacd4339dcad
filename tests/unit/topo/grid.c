/* grid.c - coordinates and groups against a table of the world made by counting
 *
 * The table knows nothing of strides: an odometer over the order string gives every rank
 * its coordinates, and ranks with equal coordinates outside a mask are one group, in the
 * order in which they turn up.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/topo/grid.h"
#include "tests/tap/tap.h"

#define COUNT(a) (sizeof (a) / sizeof ((a)[0]))

/* Ranks and their coordinates in one grid. */
struct table {
    int world;
    int size[MG_NUM_AXES];
    int (*coord)[MG_NUM_AXES];
};

/* Groups by counting: of every rank its group and its place in it. */
struct counted {
    int ngroups;
    int *group, *place, *size;
};

static const char *const names[] = { "tp", "cp", "ep", "dp", "pp" };

static int name_index (const char *name)
{
    for (int i = 0; i < MG_NUM_AXES; i++) {
        if (strncmp (names[i], name, 2) == 0)
            return i;
    }
    bail_out ("no axis %s", name);
}

static struct table make_table (const struct geometry *g, bool expert)
{
    struct table t = { .world = g->world };
    int etp = g->etp ? g->etp : g->tp;
    int wheel[MG_NUM_AXES] = { 0 };

    t.size[MG_AXIS_TP] = expert ? etp : g->tp;
    t.size[MG_AXIS_CP] = expert ? 1 : g->cp;
    t.size[MG_AXIS_EP] = expert ? g->ep : 1;
    t.size[MG_AXIS_PP] = g->pp;
    t.size[MG_AXIS_DP] = g->world / g->pp / (expert ? etp * g->ep : g->tp * g->cp);
    t.coord = calloc (t.world, sizeof (*t.coord));
    for (int rank = 0; rank < t.world; rank++) {
        memcpy (t.coord[rank], wheel, sizeof (wheel));
        for (const char *p = g->order; *p; p += p[2] ? 3 : 2) {
            int axis = name_index (p);

            if (++wheel[axis] < t.size[axis])
                break;
            wheel[axis] = 0;
        }
    }
    return t;
}

static struct counted count_groups (const struct table *t, unsigned mask)
{
    struct counted c = { 0 };
    int *seen = malloc (t->world * sizeof (int)); // group of a key, -1: not met yet

    c.group = calloc (t->world, sizeof (int));
    c.place = calloc (t->world, sizeof (int));
    c.size = calloc (t->world, sizeof (int));
    memset (seen, -1, t->world * sizeof (int));
    for (int rank = 0; rank < t->world; rank++) {
        int key = 0;

        for (int axis = 0; axis < MG_NUM_AXES; axis++) {
            if (!(mask >> axis & 1))
                key = key * t->size[axis] + t->coord[rank][axis];
        }
        if (seen[key] < 0)
            seen[key] = c.ngroups++;
        c.group[rank] = seen[key];
        c.place[rank] = c.size[seen[key]]++;
    }
    free (seen);
    return c;
}

static void free_counted (struct counted *c)
{
    free (c->group);
    free (c->place);
    free (c->size);
}

/* Number of ranks for which the grid says other than counting does. */
static int compare_mask (const struct grid *grid, bool expert, unsigned mask,
                         const struct table *t)
{
    struct counted c = count_groups (t, mask);
    int wrong = grid_masked_count (grid, expert, mask) != c.ngroups;

    for (int rank = 0; rank < t->world; rank++) {
        struct group of, at;

        grid_masked_of (grid, expert, mask, rank, &of);
        grid_masked_at (grid, expert, mask, c.group[rank], &at);
        if (of.index != c.group[rank] || of.rank != c.place[rank]
            || of.size != c.size[c.group[rank]] || at.size != of.size || at.rank != -1
            || at.base != of.base || group_at (&of, of.rank) != rank
            || group_at (&at, of.rank) != rank)
            wrong++;
    }
    free_counted (&c);
    return wrong;
}

/* The same for a kind, the embedding kinds as parts of the pp group. */
static int compare_kind (const struct grid *grid, enum group_kind kind,
                         const struct table *t)
{
    const struct group_kind_info *info = &group_kinds[kind];
    struct counted c = count_groups (t, info->mask);
    int wrong = grid_group_count (grid, kind) != c.ngroups;

    for (int rank = 0; rank < t->world; rank++) {
        int last = c.size[c.group[rank]] - 1, place = c.place[rank], size = last + 1;
        struct group of, at;

        if (info->span == GROUP_SPAN_ENDS) {
            size = last ? 2 : 1;
            place = place == 0 ? 0 : place == last ? 1 : -1;
        } else if (info->span == GROUP_SPAN_FIRST) {
            size = 1;
            place = place == 0 ? 0 : -1;
        }
        grid_group_of (grid, kind, rank, &of);
        grid_group_at (grid, kind, c.group[rank], &at);
        wrong += of.kind != kind || of.index != c.group[rank] || of.rank != place
                 || of.size != size || at.size != size || at.base != of.base;
        wrong += place >= 0 && (group_at (&of, place) != rank
                                || group_at (&at, place) != rank);
    }
    free_counted (&c);
    return wrong;
}

static int compare_coords (const struct grid *grid, bool expert, const struct table *t)
{
    int wrong = 0;

    for (int axis = 0; axis < MG_NUM_AXES; axis++)
        wrong += grid_size (grid, expert, axis) != t->size[axis];
    for (int rank = 0; rank < t->world; rank++) {
        for (int axis = 0; axis < MG_NUM_AXES; axis++)
            wrong += grid_coord (grid, expert, axis, rank) != t->coord[rank][axis];
        wrong += !expert && grid_rank_at (grid, t->coord[rank]) != rank;
    }
    return wrong;
}

/* Everything about one geometry; 'masks': every mask of both grids too. */
static int compare_grid (const struct geometry *g, bool masks)
{
    struct grid *grid = grid_create (g, NULL);
    struct table t[2] = { make_table (g, false), make_table (g, true) };
    int wrong = 0;

    if (!grid)
        bail_out ("no grid for world %d, order %s", g->world, g->order);
    for (int expert = 0; expert < 2; expert++) {
        wrong += compare_coords (grid, expert, &t[expert]);
        for (unsigned mask = 0; masks && mask < 1u << MG_NUM_AXES; mask++)
            wrong += compare_mask (grid, expert, mask, &t[expert]);
    }
    for (int kind = 0; kind < GROUP_NUM_KINDS; kind++)
        wrong += compare_kind (grid, kind, &t[group_kinds[kind].expert]);
    grid_destroy (grid);
    free (t[0].coord);
    free (t[1].coord);
    return wrong;
}

/* Does counting find both grids possible and their pp groups the same? The rule on the
 * order's end comes from Megatron-LM and is not a matter of counting.
 */
static bool counting_allows (const struct geometry *g)
{
    int etp = g->etp ? g->etp : g->tp;
    bool same = true;

    if (g->world % (g->tp * g->cp * g->pp) || g->world % (etp * g->ep * g->pp))
        return false;
    if (g->pp > 1 && g->tp * g->cp != etp * g->ep
        && strcmp (g->order + strlen (g->order) - 2, "pp") != 0)
        return false;
    struct table dense = make_table (g, false), expert = make_table (g, true);
    struct counted a = count_groups (&dense, MG_MASK (MG_AXIS_PP));
    struct counted b = count_groups (&expert, MG_MASK (MG_AXIS_PP));
    same = memcmp (a.group, b.group, g->world * sizeof (int)) == 0;
    free_counted (&a);
    free_counted (&b);
    free (dense.coord);
    free (expert.coord);
    return same;
}

static unsigned random_below (unsigned n)
{
    static uint64_t state = 88172645463325252u;

    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (unsigned)(state >> 33) % n;
}

static void random_order (char *order)
{
    int axis[MG_NUM_AXES] = { 0, 1, 2, 3, 4 };

    order[0] = '\0';
    for (int i = 0; i < MG_NUM_AXES; i++) {
        int j = i + random_below (MG_NUM_AXES - i), swap = axis[i];

        axis[i] = axis[j];
        axis[j] = swap;
        strcat (order, i ? "-" : "");
        strcat (order, names[axis[i]]);
    }
}

static void random_geometry (struct geometry *g)
{
    static const int sizes[] = { 1, 1, 2, 2, 3, 4, 5 };
    int expert = random_below (3);

    geometry_init (g);
    g->tp = sizes[random_below (COUNT (sizes))];
    g->cp = sizes[random_below (COUNT (sizes))];
    g->pp = sizes[random_below (COUNT (sizes))];
    g->ep = sizes[random_below (COUNT (sizes))];
    g->etp = sizes[random_below (COUNT (sizes))];
    if (expert == 0) { // as wide as the dense grid: any order may be legal
        g->ep = g->cp;
        g->etp = 0;
    } else if (expert == 1) {
        g->etp = 0;
    }
    g->world = g->tp * g->cp * g->pp * (1 + random_below (4));
    if (random_below (8) != 0)
        g->world *= g->ep * (g->etp ? g->etp : 1);
    random_order (g->order);
    if (random_below (3) == 0)
        strcpy (g->order, "tp-cp-ep-dp-pp");
}

static void test_random (void)
{
    int good = 0, bad = 0, disagree = 0, wrong = 0, unusual = 0;

    while (good < 400) {
        struct geometry g;
        bool legal;

        random_geometry (&g);
        if (g.world > 720)
            continue;
        legal = geometry_check (&g, NULL, NULL) == 0;
        disagree += legal != counting_allows (&g);
        if (!legal) {
            bad++;
            continue;
        }
        good++;
        unusual += strcmp (g.order + 12, "pp") != 0 && g.pp > 1;
        wrong += compare_grid (&g, g.world <= 120);
    }
    diag ("%d legal geometries, %d of them with pp inside, %d refused", good, unusual,
          bad);
    ok (bad > 100 && unusual > 50, "enough of each sort");
    is_int (disagree, 0, "the rules refuse exactly what counting finds impossible");
    is_int (wrong, 0, "coordinates and groups are those found by counting");
}

/* Shapes of real clusters, up to 10752 ranks (nodes x 8). */
static void test_shapes (void)
{
    static const int shapes[][6] = {
        /* world, tp, pp, cp, ep, etp */
        { 1, 1, 1, 1, 1, 0 },      { 8, 8, 1, 1, 1, 0 },      { 8, 2, 2, 1, 1, 0 },
        { 8, 2, 4, 1, 1, 0 },      { 24, 8, 3, 1, 1, 0 },     { 32, 2, 4, 1, 1, 0 },
        { 64, 8, 8, 1, 1, 0 },     { 64, 2, 1, 1, 4, 0 },     { 64, 2, 2, 2, 4, 0 },
        { 64, 2, 1, 4, 8, 0 },     { 64, 2, 2, 2, 8, 0 },     { 128, 4, 8, 1, 1, 0 },
        { 128, 4, 8, 1, 4, 0 },    { 128, 4, 8, 4, 1, 0 },    { 128, 8, 8, 1, 1, 0 },
        { 256, 4, 8, 1, 1, 0 },    { 256, 8, 8, 1, 1, 0 },    { 256, 4, 8, 1, 4, 0 },
        { 256, 8, 8, 4, 1, 0 },    { 512, 4, 2, 8, 8, 0 },    { 512, 4, 8, 1, 1, 0 },
        { 512, 8, 8, 1, 1, 0 },    { 768, 4, 8, 1, 1, 0 },    { 1024, 4, 2, 8, 8, 0 },
        { 1024, 4, 8, 1, 1, 0 },   { 2048, 4, 8, 1, 1, 0 },   { 2528, 4, 8, 1, 1, 0 },
        { 3072, 4, 8, 1, 1, 0 },   { 4096, 4, 8, 1, 1, 0 },   { 6144, 4, 8, 1, 1, 0 },
        { 8192, 4, 8, 1, 1, 0 },   { 10240, 4, 8, 1, 1, 0 },  { 10752, 4, 8, 1, 1, 0 },
        { 1024, 2, 16, 1, 64, 1 }, { 2048, 2, 16, 1, 64, 0 },
    };

    for (size_t i = 0; i < COUNT (shapes); i++) {
        const int *s = shapes[i];
        struct geometry g;

        geometry_init (&g);
        g.world = s[0], g.tp = s[1], g.pp = s[2], g.cp = s[3], g.ep = s[4], g.etp = s[5];
        is_int (compare_grid (&g, false), 0, "world %d tp %d pp %d cp %d ep %d etp %d",
                s[0], s[1], s[2], s[3], s[4], s[5]);
    }
}

/* What moves when dp and pp change places, and what must not. */
static void test_orders (void)
{
    static const struct {
        enum group_kind kind;
        bool moves[2]; /* pp 1, pp 2 */
    } cases[] = {
        { GROUP_TP, { false, false } },   { GROUP_CP, { false, false } },
        { GROUP_DP, { false, true } },    { GROUP_PP, { false, true } },
        { GROUP_TP_PP, { false, true } }, { GROUP_TP_DP, { false, true } },
        { GROUP_EMBD, { false, true } },
    };

    for (int pp = 1; pp <= 2; pp++) {
        struct geometry g;
        struct grid *grid[2];

        geometry_init (&g);
        g.world = 8, g.tp = 2, g.pp = pp;
        grid[0] = grid_create (&g, NULL);
        strcpy (g.order, "tp-cp-ep-pp-dp");
        grid[1] = grid_create (&g, NULL);
        for (size_t i = 0; i < COUNT (cases); i++) {
            bool moves = false;

            for (int rank = 0; rank < 8; rank++) {
                struct group a, b;

                grid_group_of (grid[0], cases[i].kind, rank, &a);
                grid_group_of (grid[1], cases[i].kind, rank, &b);
                moves |= group_at (&a, a.size - 1) != group_at (&b, b.size - 1);
            }
            is_int (moves, cases[i].moves[pp - 1], "pp %d: %s groups %s", pp,
                    group_kinds[cases[i].kind].name,
                    cases[i].moves[pp - 1] ? "move" : "stay");
        }
        grid_destroy (grid[0]);
        grid_destroy (grid[1]);
    }
}

/* A million ranks: closed form, so one rank's groups cost nothing. */
static void test_large (void)
{
    struct geometry g;
    struct grid *grid;
    struct group group;
    int wrong = 0;

    geometry_init (&g);
    g.world = GEOMETRY_SIZE_MAX, g.tp = 8, g.pp = 16;
    grid = grid_create (&g, NULL);
    for (int rank = 0; rank < g.world; rank += 7919) {
        grid_group_of (grid, GROUP_TP_PP, rank, &group);
        wrong += group_at (&group, group.rank) != rank;
        grid_group_of (grid, GROUP_WORLD, rank, &group);
        wrong += group.rank != rank || group.size != g.world || group.base != 0;
    }
    is_int (wrong, 0, "ranks of the largest world find themselves");
    grid_group_of (grid, GROUP_PP, g.world - 1, &group);
    is_int (group_at (&group, 15), g.world - 1, "its last rank ends its pipeline");
    grid_destroy (grid);
}

static void test_badparam (void)
{
    static const int outside[][MG_NUM_AXES] = {
        { 2, 0, 0, 0, 0 }, { -1, 0, 0, 0, 0 }, { 0, 1, 0, 0, 0 },
        { 0, 0, 1, 0, 0 }, { 0, 0, 0, 2, 0 },  { 0, 0, 0, 0, 2 },
    };
    struct mg_error err = { .text = "" };
    struct geometry g;
    struct grid *grid;

    geometry_init (&g);
    ok (grid_create (&g, &err) == NULL && errno == EINVAL, "no grid without a world");
    is_str (err.text, "the number of ranks is not known", "and says so");
    g.world = 8, g.tp = 3;
    ok (grid_create (&g, &err) == NULL && errno == EINVAL, "no grid of a bad geometry");
    is_str (err.text, "8 tasks cannot hold tp 3 x cp 1 x pp 1 = 3; use -n 6 or -n 9",
            "with the rule's words");
    ok (grid_create (&g, NULL) == NULL, "nor without a text");
    g.tp = 2, g.pp = 2;
    grid = grid_create (&g, &err);
    for (size_t i = 0; i < COUNT (outside); i++) {
        errno = 0;
        ok (grid_rank_at (grid, outside[i]) == -1 && errno == EINVAL,
            "coordinates %zu are outside", i);
    }
    is_int (grid_world (grid), 8, "world");
    is_int (grid_geometry (grid)->pp, 2, "geometry");
    grid_destroy (grid);
    errno = EIO;
    grid_destroy (NULL);
    is_int (errno, EIO, "destroy takes NULL and keeps errno");
}

static void test_kinds (void)
{
    for (int kind = 0; kind < GROUP_NUM_KINDS; kind++)
        is_int (group_kind_by_name (group_kinds[kind].name), kind, "kind %s is found",
                group_kinds[kind].name);
    errno = 0;
    is_int (group_kind_by_name ("tpp"), -1, "no such kind");
    is_int (errno, ENOENT, "errno");
    is_int (group_kind_by_name (""), -1, "the empty name");
    is_int (group_kind_by_name (NULL), -1, "no name");
}

int main (void)
{
    test_kinds ();
    test_shapes ();
    test_random ();
    test_orders ();
    test_large ();
    test_badparam ();
    return done_testing ();
}
