/* train.c - what a program's training run refuses; t2003-library.t has one that trains */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "megatron/train.h"
#include "tests/tap/tap.h"

static char *bad[] = { "me", "--bogus", NULL };

static void test_badparam (void)
{
    struct mg_error err = { "" };
    struct mg_train *train;

    ok (!mg_train_create (0, bad, stdout, stderr, &err) && errno == EINVAL, "%s", err.text);
    ok (!mg_train_create (1, NULL, stdout, stderr, &err) && errno == EINVAL, "%s", err.text);
    ok (!mg_train_create (1, bad, NULL, stderr, &err) && errno == EINVAL, "%s", err.text);
    ok (!mg_train_create (1, bad, stdout, NULL, &err) && errno == EINVAL, "%s", err.text);
    train = mg_train_create (2, bad, stdout, stderr, &err);
    ok (train, "wrong arguments are not said yet");
    is_int (mg_train_run (train, &err), -1, "a run that is not set up: %s", err.text);
    is_int (mg_train_setup (train, &err), -1, "but here");
    ok (strstr (err.text, "--bogus"), "%s", err.text);
    ok (mg_train_should_report (train, &err), "one rank reports");
    mg_train_abort (train, 1); // returns: there is nobody else
    is_int (mg_train_setup (train, &err), -1, "setting up twice: %s", err.text);
    mg_train_destroy (train);
    train = mg_train_create (2, bad, stdout, stderr, NULL);
    is_int (mg_train_setup (train, NULL), -1, "nobody wants the text");
    mg_train_destroy (train);
    is_int (mg_train_setup (NULL, &err), -1, "no run to set up");
    is_int (mg_train_run (NULL, &err), -1, "no run");
    is_int (mg_train_step (NULL, NULL, &err), -1, "no run to take a step of: %s", err.text);
    is_int (mg_train_finish (NULL, &err) + mg_train_save (NULL, &err)
                + mg_train_evaluate (NULL, "validation", NULL, &err)
                + mg_train_read_part (NULL, "x", NULL, 0, NULL) + mg_train_stop (NULL, &err)
                + mg_train_set_samples (NULL, "train", NULL, &err)
                + mg_train_loss (NULL, "lm loss", NULL, &err), -7, "nor to call anything on");
    is_int (mg_train_rank (NULL) + mg_train_world (NULL) + (int)mg_train_iteration (NULL), -3,
            "nor to ask");
    ok (mg_train_num_params (NULL) == 0 && !mg_train_param_name (NULL, 0, &err), "%s", err.text);
    ok (!mg_train_param_name (NULL, -1, &err), "%s", err.text);
    ok (mg_train_should_report (NULL, NULL), "then this rank should say so");
    is_int (mg_train_status (NULL), 1, "and exit with 1");
    errno = 77;
    mg_train_abort (NULL, 1);
    mg_train_destroy (NULL);
    is_int (errno, 77, "NULL is allowed, errno stays");
}

int main (void)
{
    unsetenv ("PMIX_NAMESPACE");
    unsetenv ("SLURM_PROCID");
    test_badparam ();
    return done_testing ();
}
