/* start.c - join the job, make every communicator, leave: what bench/startup times */

#include <stdio.h>

#include "megatron/job.h"

int main (void)
{
    struct mg_error err = { "" };
    struct mg_job *job = mg_job_create (NULL, NULL, &err);

    if (!job) {
        fprintf (stderr, "start: %s\n", err.text);
        return 1;
    }
    mg_job_destroy (job);
    return 0;
}
