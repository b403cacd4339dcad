/* gpus.c - GPUs of several ranks, as a table says them in place of the handshake */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/job/gpus.h"
#include "tests/tap/tap.h"

enum { RANKS = 6, PER_NODE = 3 };

static struct handshake_device said[RANKS];
static int asked;

int __wrap_handshake_device (struct bootstrap *b, int rank, struct handshake_device *device,
                             struct mg_error *err);
int __wrap_device_identify (const struct device_config *config, struct device_identity *identity,
                            struct mg_error *err);

int __wrap_handshake_device (struct bootstrap *b, int rank, struct handshake_device *device,
                             struct mg_error *err)
{
    (void)b;
    asked++;
    if (rank < 0 || rank >= RANKS)
        return mg_error_set (err, EINVAL, "no rank %d", rank);
    *device = said[rank];
    return 0;
}

/* A node with PER_NODE GPUs. */
int __wrap_device_identify (const struct device_config *config, struct device_identity *identity,
                            struct mg_error *err)
{
    int n = config->ordinal == DEVICE_BY_RANK ? config->local_rank : config->ordinal;

    memset (identity, 0, sizeof (*identity));
    if (n >= PER_NODE)
        return mg_error_set (err, ENODEV, "no GPU %d", n);
    identity->driver = 13010;
    identity->runtime = 13000;
    memcpy (identity->place, "0000:00:00.0", 13);
    identity->place[6] = (char)('0' + n);
    return 0;
}

static struct bootstrap_info place_of (int rank)
{
    return (struct bootstrap_info){ .size = RANKS, .rank = rank, .node = rank / PER_NODE,
                                    .num_nodes = RANKS / PER_NODE,
                                    .local_rank = rank % PER_NODE, .local_size = PER_NODE };
}

/* Each rank has a GPU of its own. */
static void say_good (void)
{
    const struct device_choice choice = { "cuda", DEVICE_BY_RANK };
    struct mg_error err = { "" };

    for (int r = 0; r < RANKS; r++) {
        struct bootstrap_info info = place_of (r);

        if (gpus_own (&info, &choice, true, &said[r], &err) < 0)
            bail_out ("%s", err.text);
    }
    asked = 0;
}

static void test_own (void)
{
    struct bootstrap_info info = place_of (4);
    const struct device_choice by_rank = { "cuda", DEVICE_BY_RANK }, wrong = { "cuda", 7 };
    struct handshake_device own;
    struct mg_error err = { "" };

    is_int (gpus_own (&info, &by_rank, true, &own, &err), 0, "a rank has a GPU %s", err.text);
    is_str (own.identity.place, "0000:01:00.0", "that of its place on the node");
    ok (own.node == 1 && own.usable == 1, "it says its node, and that it can use the GPU");
    is_int (gpus_own (&info, &by_rank, false, &own, &err), 0, "without NCCL");
    ok (own.usable == 0 && own.identity.place[0], "it cannot");
    ok (gpus_own (&info, &wrong, true, &own, &err) < 0 && errno == ENODEV && own.node == 1
            && !own.usable && !own.identity.place[0], "a GPU that is not there: %s", err.text);
}

/* Ranks that are changed, and what comes of it. */
static void test_everywhere (void)
{
    struct bootstrap_info info = place_of (0);
    struct mg_error why = { "" };

    say_good ();
    ok (gpus_everywhere (NULL, &info, &why), "a GPU on every rank %s", why.text);
    is_int (asked, RANKS, "each rank is asked once");
    said[4].usable = 0;
    ok (!gpus_everywhere (NULL, &info, &why), "one rank without NCCL");
    is_str (why.text, "rank 4 has no NCCL", "is named");
    said[2].usable = 0;
    said[2].identity.place[0] = '\0';
    ok (!gpus_everywhere (NULL, &info, &why), "an earlier one without a GPU");
    is_str (why.text, "rank 2 has no GPU that it can use", "is named first");
    say_good ();
    said[5].identity = said[3].identity;
    ok (!gpus_everywhere (NULL, &info, &why), "two ranks on one GPU");
    is_str (why.text, "ranks 3 and 5 have one GPU, 0000:00:00.0", "are named");
    setenv ("NCCL_HOSTID", "a", 1);
    ok (gpus_everywhere (NULL, &info, &why), "with NCCL_HOSTID they may");
    unsetenv ("NCCL_HOSTID");
    info.size = RANKS + 1;
    ok (!gpus_everywhere (NULL, &info, &why) && strcmp (why.text, "no rank 6") == 0,
        "a rank that has said nothing");
}

static void test_check (void)
{
    struct bootstrap_info info = place_of (4);
    struct mg_error err = { "" };

    say_good ();
    is_int (gpus_check (NULL, &info, &err), 0, "GPUs that go together %s", err.text);
    is_int (asked, PER_NODE + 2, "the node's ranks, this rank and rank 0 are asked");
    said[1].identity = said[0].identity;
    is_int (gpus_check (NULL, &info, &err), 0, "another node's GPU is no matter %s", err.text);
    said[5].identity = said[4].identity;
    ok (gpus_check (NULL, &info, &err) < 0 && errno == EBUSY, "one GPU for two ranks");
    is_str (err.text, "device cuda: ranks 4 and 5 have one GPU, 0000:01:00.0: want one for each "
            "rank, or NCCL_HOSTID of another value for each", "which are named");
    info = place_of (3);
    ok (gpus_check (NULL, &info, &err) < 0 && errno == EBUSY, "a third rank of the node finds it");
    setenv ("NCCL_HOSTID", "", 1);
    ok (gpus_check (NULL, &info, &err) < 0, "an empty NCCL_HOSTID changes nothing");
    setenv ("NCCL_HOSTID", "a", 1);
    is_int (gpus_check (NULL, &info, &err), 0, "with NCCL_HOSTID they may %s", err.text);
    unsetenv ("NCCL_HOSTID");
    setenv ("NCCL_MULTI_RANK_GPU_ENABLE", "1", 1);
    is_int (gpus_check (NULL, &info, &err), 0, "and with NCCL's own permission %s", err.text);
    said[0].identity.driver = 12080;
    ok (gpus_check (NULL, &info, &err) < 0 && errno == EPROTO, "another driver");
    is_str (err.text, "device cuda: the driver is of CUDA 13.1 here and of 12.8 on rank 0: want "
            "one version on all nodes", "is named");
    said[0].identity.runtime = 13010;
    ok (gpus_check (NULL, &info, &err) < 0 && strstr (err.text, "the runtime is of CUDA 13.0 here"),
        "another runtime: %s", err.text);
    said[3].identity = (struct device_identity){ .place = "" };
    is_int (gpus_check (NULL, &info, &err), 0, "a rank without a GPU has another reason");
    unsetenv ("NCCL_MULTI_RANK_GPU_ENABLE");
}

int main (void)
{
    test_own ();
    test_everywhere ();
    test_check ();
    return done_testing ();
}
