/* pp_lane.c - communicators for lanes: which there are, and that all ranks can make them
 *
 * Jobs of planned ranks make them where communicators are serial.  The linker puts this
 * file's functions between the job and the communicators, so that all creations are seen.
 */

#include <stdlib.h>
#include <string.h>

#include "libcore/comm/comm.h"
#include "libcore/job/job.h"
#include "libcore/job/pp_lane.h"
#include "libcore/schedule/lane.h"
#include "tests/tap/tap.h"

enum { MAX_RANKS = 24, MAX_COMMS = 32 };

/* A communicator as one of its members makes it; creation blocks until all have come. */
struct creation {
    const char *name;
    int tag, size;
    int tasks[MAX_RANKS];
};

struct rank {
    struct creation made[MAX_COMMS];
    int n, at;
};

static bool same_creation (const struct creation *a, const struct creation *b)
{
    return a->tag == b->tag && a->size == b->size
           && memcmp (a->tasks, b->tasks, (size_t)a->size * sizeof (a->tasks[0])) == 0;
}

static bool all_are_there (const struct rank *rank, const struct creation *c)
{
    for (int i = 0; i < c->size; i++) {
        const struct rank *r = &rank[c->tasks[i]];

        if (r->at == r->n || !same_creation (&r->made[r->at], c))
            return false;
    }
    return true;
}

/* Rounds of creation until all ranks have made all of theirs; -1: some wait for ever. */
static int count_rounds (struct rank *rank, int nranks)
{
    int rounds = 0;
    bool moved = true;

    while (moved) {
        bool ready[MAX_RANKS] = { false };

        moved = false;
        for (int r = 0; r < nranks; r++)
            ready[r] = rank[r].at < rank[r].n
                       && all_are_there (rank, &rank[r].made[rank[r].at]);
        for (int r = 0; r < nranks; r++) {
            rank[r].at += ready[r];
            moved |= ready[r];
        }
        rounds += moved;
    }
    for (int r = 0; r < nranks; r++)
        rounds = rank[r].at < rank[r].n ? -1 : rounds;
    return rounds;
}

/* Two communicators of one rank with the same tag that have another member in common. */
static int count_clashes (const struct rank *r)
{
    int clashes = 0;

    for (int i = 0; i < r->n; i++) {
        for (int k = 0; k < i; k++)
            clashes += r->made[i].tag == r->made[k].tag;
    }
    return clashes;
}

/* The lanes of a pipeline, in rank r's order. */
static void add_lanes (struct rank *r, int pp, int rank, bool virtual_stages)
{
    struct pp_lane list[PP_LANES_MAX];

    *r = (struct rank){ .n = pp_lane_list (pp, rank, virtual_stages, list) };
    for (int i = 0; i < r->n; i++)
        r->made[i] = (struct creation){ list[i].name, list[i].tag, 2,
                                        { list[i].from, list[i].to } };
}

static void test_order (void)
{
    static struct rank rank[MAX_RANKS];

    for (int pp = 1; pp <= MAX_RANKS; pp++) {
        for (int virtual_stages = 0; virtual_stages <= 1; virtual_stages++) {
            int links = pp == 1 ? 0 : pp - 1 + virtual_stages, lanes = 0, clashes = 0;
            int turns = links < 2 ? links : pp == 2 || !virtual_stages ? 2 : 3, rounds;

            for (int r = 0; r < pp; r++) {
                add_lanes (&rank[r], pp, r, virtual_stages);
                lanes += rank[r].n;
                clashes += count_clashes (&rank[r]);
            }
            is_int (lanes, 4 * links, "pp %d%s: two lanes a link, seen from both ends", pp,
                    virtual_stages ? " with virtual stages" : "");
            is_int (clashes, 0, "a rank has no tag twice");
            rounds = count_rounds (rank, pp);
            ok (rounds >= 0 && rounds <= 2 * turns, "all are made, in %d rounds", rounds);
        }
    }
    for (int r = 0; r < 3; r++)
        add_lanes (&rank[r], 3, r, true);
    for (int i = 0; i < 2; i++) {
        struct creation c = rank[0].made[i];

        rank[0].made[i] = rank[0].made[i + 2];
        rank[0].made[i + 2] = c;
    }
    is_int (count_rounds (rank, 3), -1, "a rank with another order is waited for for ever");
}

/* What a rank calls its lanes leads to the other end. */
static void test_names (void)
{
    static const char *const names[] = { "pp-bwd-in", "pp-bwd-out", "pp-fwd-in", "pp-fwd-out" };
    int bad = 0;

    for (int pp = 2; pp <= 5; pp++) {
        for (int rank = 0; rank < pp; rank++) {
            struct pp_lane list[PP_LANES_MAX];
            int n = pp_lane_list (pp, rank, true, list);

            for (int i = 0; i < n; i++)
                bad += pp_lane_peer (list[i].name, pp, rank)
                       != list[i].from + list[i].to - rank;
        }
    }
    is_int (bad, 0, "a lane's name leads to its other end");
    for (int i = 0; i < 4; i++)
        ok (pp_lane_peer (names[i], 4, 1) == (i == 0 || i == 3 ? 2 : 0), "%s", names[i]);
    is_int (pp_lane_peer ("pp", 4, 1), -1, "\"pp\" is no lane");
}

/* --- jobs of planned ranks --- */

static bool serial;
static struct rank *maker; /* whose job is being made */

bool __wrap_comm_net_serial (const struct comm_net *net);
struct mg_comm *__real_comm_create (struct comm_net *net, const struct comm_config *config,
                                    struct mg_error *err);
struct mg_comm *__wrap_comm_create (struct comm_net *net, const struct comm_config *config,
                                    struct mg_error *err);

bool __wrap_comm_net_serial (const struct comm_net *net)
{
    (void)net;
    return serial;
}

struct mg_comm *__wrap_comm_create (struct comm_net *net, const struct comm_config *config,
                                    struct mg_error *err)
{
    if (config->size > 1 && !config->share) {
        struct creation *c = &maker->made[maker->n++];

        if (maker->n == MAX_COMMS)
            bail_out ("too many communicators");
        c->name = config->name;
        c->tag = config->tag;
        c->size = config->size;
        memcpy (c->tasks, config->tasks, (size_t)config->size * sizeof (c->tasks[0]));
    }
    return __real_comm_create (net, config, err);
}

static struct job *make_job (const struct geometry *geometry, int rank)
{
    struct job_config config = { .geometry = *geometry, .timeout = 5, .threads = 1,
                                 .optimizer_instances = 2, .comm = "plan" };
    struct mg_error err = { "" };
    struct job *job;

    if (!(config.bootstrap = bootstrap_create_planned (rank, geometry->world, &err))
        || !(job = job_create (&config, &err)))
        bail_out ("%s", err.text);
    return job;
}

/* Lanes of one rank's job whose communicator is not what it must be. */
static int check_lanes (const struct job *job, const struct geometry *g)
{
    const struct mg_comm *pp = job_comm (job, GROUP_PP);
    int rank = mg_comm_rank (pp), bad = 0;

    for (int i = 0; i < SCHED_NUM_LANES; i++) {
        struct sched_link link = sched_lane_link (i, g->pp, rank);
        const struct mg_comm *comm = job_comm_lane (job, link.backward, link.from, link.to);
        int other = link.from + link.to - rank;
        bool wraps = abs (link.from - link.to) != 1
                     || (g->pp == 2 && link.from != link.backward);

        if (serial && wraps && g->vpp < 2) {
            bad += comm != NULL;
            continue;
        }
        bad += !comm || mg_comm_size (comm) != (serial ? 2 : g->pp);
        bad += comm && mg_comm_rank (comm) != (serial ? rank > other : rank);
        bad += comm && pp_lane_peer (mg_comm_name (comm), g->pp, rank)
                           != (serial ? other : -1);
    }
    return bad;
}

static void check_jobs (const struct geometry *g)
{
    static struct rank rank[MAX_RANKS];
    int bad = 0, clashes = 0, lanes = 0;

    memset (rank, 0, sizeof (rank));
    for (int r = 0; r < g->world; r++) {
        struct job *job;

        maker = &rank[r];
        job = make_job (g, r);
        bad += check_lanes (job, g);
        for (int i = 0; i < rank[r].n; i++)
            lanes += pp_lane_peer (rank[r].made[i].name, g->pp, 0) >= 0;
        clashes += count_clashes (&rank[r]);
        job_destroy (job);
    }
    is_int (bad, 0, "pp %d, vpp %d, %s communicators: every lane has its own", g->pp, g->vpp,
            serial ? "serial" : "free");
    is_int (lanes, serial ? 4 * (g->pp - 1 + (g->vpp > 1)) * g->world / g->pp : 0,
            "which only serial ones need");
    is_int (clashes, 0, "no rank has a tag twice");
    ok (count_rounds (rank, g->world) > 0, "all ranks make all communicators");
}

static void test_jobs (void)
{
    for (int i = 0; i < 16; i++) {
        struct geometry g;

        geometry_init (&g);
        g.pp = 2 + i / 4;
        g.vpp = i / 2 % 2 ? 2 : g.vpp;
        g.tp = 2;
        g.world = 2 * g.pp * 2;
        serial = i % 2;
        check_jobs (&g);
    }
}

int main (void)
{
    test_order ();
    test_names ();
    test_jobs ();
    return done_testing ();
}
