/* exchange.c - agreements: the lowest failure wins, everybody hears of it */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libcore/comm/exchange.h"
#include "tests/tap/tap.h"
#include "tests/unit/checkpoint/threads.h"

enum { MAX_RANKS = 16 };

struct trial {
    unsigned int failing; /* bit r: rank r fails */
    int bad_take;         /* rank whose bytes are refused, -1: none */
    int rc[MAX_RANKS], errnum[MAX_RANKS];
    struct mg_error err[MAX_RANKS];
    char taken[4000]; /* "rank:length " in the order taken */
    size_t lengths[MAX_RANKS];
    size_t sum[MAX_RANKS];
};

static void agree (struct mg_comm *comm, void *arg)
{
    const int rank = mg_comm_rank (comm);
    struct trial *t = arg;
    int rc = 0;

    snprintf (t->err[rank].text, sizeof (t->err[rank].text), "no text");
    if (t->failing >> rank & 1)
        rc = mg_error_set (&t->err[rank], EDOM + rank, "rank %d failed", rank);
    t->rc[rank] = exchange_result (comm, rc, &t->err[rank]);
    t->errnum[rank] = errno;
}

static void test_result (void)
{
    static const unsigned int sets[] = { 0, 1, 2, 6, 8, 15, 12 };

    for (size_t i = 0; i < sizeof (sets) / sizeof (sets[0]); i++) {
        struct trial t = { .failing = sets[i] };
        const int lowest = sets[i] ? __builtin_ctz (sets[i]) : -1;
        char want[40] = "no text";
        int wrong = 0;

        threads_run (4, agree, &t);
        if (lowest >= 0)
            snprintf (want, sizeof (want), "rank %d failed", lowest);
        for (int r = 0; r < 4; r++) {
            wrong += t.rc[r] != (lowest < 0 ? 0 : -1);
            wrong += lowest >= 0 && t.errnum[r] != EDOM + lowest;
            wrong += strcmp (t.err[r].text, want) != 0;
        }
        is_int (wrong, 0, "failing ranks 0x%x: everybody has \"%s\"", sets[i], want);
    }
}

static int take (void *arg, int rank, const void *data, size_t len, struct mg_error *err)
{
    struct trial *t = arg;
    char text[32];

    snprintf (text, sizeof (text), "%d:%zu ", rank, len);
    strcat (t->taken, text);
    for (size_t i = 0; i < len; i++) {
        if (((const unsigned char *)data)[i] != (unsigned char)(rank + 1))
            return mg_error_set (err, EILSEQ, "wrong byte of rank %d", rank);
    }
    if (rank == t->bad_take)
        return mg_error_set (err, ERANGE, "bytes of rank %d refused", rank);
    return 0;
}

static void gather (struct mg_comm *comm, void *arg)
{
    const int rank = mg_comm_rank (comm);
    struct trial *t = arg;
    char *data = malloc (t->lengths[rank] + 1);

    memset (data, rank + 1, t->lengths[rank]);
    t->rc[rank] = exchange_gather (comm, data, t->lengths[rank], take, t, &t->err[rank]);
    t->errnum[rank] = errno;
    free (data);
}

static void test_gather (void)
{
    struct trial t = { .bad_take = -1, .lengths = { 3, 0, 100000, 1 } };
    int wrong = 0;

    threads_run (4, gather, &t);
    is_str (t.taken, "0:3 1:0 2:100000 3:1 ", "bytes are taken in rank order");
    is_int (t.rc[0] | t.rc[1] | t.rc[2] | t.rc[3], 0, "with success everywhere");
    t.bad_take = 1;
    t.taken[0] = '\0';
    threads_run (4, gather, &t);
    is_str (t.taken, "0:3 1:0 ", "after a failure nothing more is taken");
    for (int r = 0; r < 4; r++)
        wrong += t.rc[r] != -1 || t.errnum[r] != ERANGE
                 || strcmp (t.err[r].text, "bytes of rank 1 refused") != 0;
    is_int (wrong, 0, "and everybody knows: %s", t.err[3].text);
    t = (struct trial){ .bad_take = -1 };
    threads_run (1, gather, &t);
    ok (t.rc[0] == 0 && strcmp (t.taken, "0:0 ") == 0, "one rank with nothing");
}

static void spread (struct mg_comm *comm, void *arg)
{
    const int rank = mg_comm_rank (comm);
    struct trial *t = arg;
    char *data = NULL;
    size_t len = 12345;

    if (rank == 0) {
        len = t->lengths[0];
        data = malloc (len + 1);
        memset (data, 7, len);
    }
    t->rc[rank] = exchange_broadcast (comm, &data, &len, &t->err[rank]);
    t->lengths[rank] = len;
    for (size_t i = 0; i < len; i++)
        t->sum[rank] += (unsigned char)data[i];
    free (data);
}

static void test_broadcast (void)
{
    static const size_t lengths[] = { 0, 1, 70001 };

    for (size_t i = 0; i < 3; i++) {
        struct trial t = { .lengths = { lengths[i] } };
        int wrong = 0;

        threads_run (5, spread, &t);
        for (int r = 0; r < 5; r++)
            wrong += t.rc[r] != 0 || t.lengths[r] != lengths[i]
                     || t.sum[r] != 7 * lengths[i];
        is_int (wrong, 0, "%zu bytes reach five ranks", lengths[i]);
    }
}

int main (void)
{
    alarm (550);
    test_result ();
    test_gather ();
    test_broadcast ();
    return done_testing ();
}
