/* train.c - training runs for programs */

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "libcore/base/c_locale.h"
#include "libcore/train/train.h"
#include "megatron/train.h"

struct mg_train {
    struct train_args args;
    struct train *train;
    bool refused;           /* the arguments are wrong, as 'why' says */
    int why_errno;
    struct mg_error why;
    enum { NEW, READY, DONE } state;
};

struct mg_train *mg_train_create (int argc, char **argv, FILE *log, FILE *errors,
                                  struct mg_error *err)
{
    struct mg_train *train;
    locale_t before;

    if (argc < 1 || !argv || !log || !errors) {
        mg_error_set (err, EINVAL, "train: no %s given",
                      !log ? "log" : !errors ? "stream for errors" : "arguments");
        return NULL;
    }
    before = c_locale_enter ();
    if (!(train = calloc (1, sizeof (*train))))
        goto error;
    train->refused = train_args_parse (argc, argv, &train->args, &train->why) < 0;
    train->why_errno = errno;
    if (!(train->train = train_create (&train->args, log, errors)))
        goto error;
    c_locale_leave (before);
    return train;
error:
    mg_error_set (err, ENOMEM, "train: out of memory");
    mg_train_destroy (train);
    c_locale_leave (before);
    return NULL;
}

static int set_up (struct mg_train *train, struct mg_error *err)
{
    struct mg_error unused = { "" };

    if (!err)
        err = &unused; /* a text that one rank sends to the others */
    if (train->refused) {
        *err = train->why;
        errno = train->why_errno;
        return train_refuse (train->train, err);
    }
    if (train_setup (train->train, err) < 0)
        return -1;
    train->state = READY;
    return 0;
}

int mg_train_setup (struct mg_train *train, struct mg_error *err)
{
    locale_t before;
    int rc;

    if (!train || train->state != NEW)
        return mg_error_set (err, EINVAL, "train: set up already");
    train->state = DONE;
    before = c_locale_enter ();
    rc = set_up (train, err);
    c_locale_leave (before);
    return rc;
}

int mg_train_run (struct mg_train *train, struct mg_error *err)
{
    locale_t before;
    int rc;

    if (!train || train->state != READY)
        return mg_error_set (err, EINVAL, "train: a run is taken once, after "
                             "mg_train_setup() has succeeded");
    train->state = DONE;
    before = c_locale_enter ();
    rc = train_run (train->train, err);
    c_locale_leave (before);
    return rc;
}

int mg_train_status (const struct mg_train *train)
{
    return train ? train_status (train->train) : 1;
}

int mg_train_should_report (const struct mg_train *train, const struct mg_error *err)
{
    const struct mg_error none = { "no reason given" };

    return !train || train_should_report (train->train, err ? err : &none);
}

void mg_train_abort (struct mg_train *train, int code)
{
    locale_t before = c_locale_enter ();

    if (train)
        train_abort (train->train, code < 1 || code > 255 ? 1 : code);
    c_locale_leave (before); // a run of one rank returns
}

void mg_train_destroy (struct mg_train *train)
{
    int saved_errno = errno;
    locale_t before = c_locale_enter ();

    if (train) {
        train_destroy (train->train);
        train_args_clear (&train->args);
        free (train);
    }
    c_locale_leave (before);
    errno = saved_errno;
}
