/* library-train.c - train through the public interface alone; a test compiles it */

#include <stdio.h>

#include <megatron/train.h>

int main (int argc, char **argv)
{
    struct mg_error err = { "" };
    struct mg_train *train = mg_train_create (argc, argv, stdout, stderr, &err);
    int status = 0;

    if (!train || mg_train_setup (train, &err) < 0 || mg_train_run (train, &err) < 0) {
        status = 1;
        if (mg_train_should_report (train, &err))
            fprintf (stderr, "library-train: %s\n", err.text);
        fflush (NULL);
        mg_train_abort (train, 1);
    } else
        status = mg_train_status (train);
    mg_train_destroy (train);
    return status;
}
