/* A build without protobuf-c: --tensorboard-dir is refused, and says what is missing. */

#include <errno.h>
#include <string.h>

#include "libcore/train/config.h"
#include "libcore/train/events.h"
#include "tests/tap/tap.h"

int main (void)
{
    static char *argv[] = {
        "train", "--num-layers", "2", "--hidden-size", "64", "--num-attention-heads", "4",
        "--seq-length", "16", "--micro-batch-size", "2", "--train-iters", "10", "--lr", "1e-3",
        "--data-path", "p", "--vocab-size", "257", "--log-timers-to-tensorboard",
        "--tensorboard-dir", "d", NULL
    };
    enum { COUNT = sizeof (argv) / sizeof (argv[0]) - 1 };
    struct train_args args;
    struct mg_error err = { "" };

    train_args_init (&args);
    is_int (train_args_parse (COUNT - 2, argv, &args, &err), 0, "nothing is asked for: %s",
            err.text);
    train_args_clear (&args);
    train_args_init (&args);
    is_int (train_args_parse (COUNT, argv, &args, &err), -1, "a directory is refused");
    is_int (errno, ENOTSUP, "as not supported");
    is_str (err.text, "--tensorboard-dir: event files need the library protobuf-c, which this "
            "build lacks: configure --with-protobuf-c (Debian: libprotobuf-c-dev "
            "protobuf-c-compiler)", "with a line that says what is missing");
    train_args_clear (&args);
    ok (!events_create (".", &err) && strstr (err.text, "need the library protobuf-c"),
        "there is no file");
    events_destroy (NULL);
    return done_testing ();
}
