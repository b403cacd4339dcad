/* library-job.c - join a job through the public interface alone; a test compiles it
 *
 *     library-job MODE [SECONDS [FILE]]
 *
 * SECONDS is the job's timeout.  The report on all ranks goes to FILE.RANK, by the launcher's
 * number of this process.  Modes: "join" joins and leaves; its fingerprint is the number in the
 * variable FINGERPRINT, and a failure is printed and ends well, so that no launcher ends the other
 * ranks.  In the others all ranks sum up, again and again, until rank 1 does something else:
 * "kill" kills it, "stop" stops it, "exit" exits with status 0, "end" leaves the job in order, as
 * all ranks do.
 */

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <megatron/megatron.h>

enum { ROUNDS = 5 };

static int join (const struct mg_job_options *options)
{
    struct mg_error err = { "" };
    struct mg_job *job = mg_job_create (NULL, options, &err);

    if (!job)
        printf ("refused: %s\n", err.text);
    mg_job_destroy (job);
    return 0;
}

static void misbehave (const char *mode)
{
    if (strcmp (mode, "kill") == 0)
        raise (SIGKILL);
    else if (strcmp (mode, "stop") == 0)
        raise (SIGSTOP);
    else if (strcmp (mode, "exit") == 0)
        _exit (0);
}

static int work (const struct mg_job_options *options, const char *mode)
{
    struct mg_error err = { "" };
    struct mg_job *job = mg_job_create (NULL, options, &err);
    float one = 1;

    if (!job) {
        fprintf (stderr, "library-job: %s\n", err.text);
        return 1;
    }
    for (int i = 0; i < ROUNDS; i++) {
        if (i == ROUNDS - 1 && mg_job_rank (job) == 1)
            misbehave (mode);
        if (mg_comm_all_reduce (mg_job_comm (job, MG_GROUP_WORLD), &one, 1, MG_FLOAT32, MG_MAX,
                                NULL, &err) < 0) {
            fprintf (stderr, "library-job: %s\n", err.text);
            mg_job_abort (job, 1);
        }
    }
    mg_job_destroy (job);
    return 0;
}

int main (int argc, char **argv)
{
    struct mg_job_options options = MG_JOB_OPTIONS_INIT;
    const char *mode = argc > 1 ? argv[1] : "join", *fingerprint = getenv ("FINGERPRINT");
    const char *rank = getenv ("PMIX_RANK");
    char path[200];

    if (argc > 2)
        options.timeout = atof (argv[2]);
    if (argc > 3) {
        snprintf (path, sizeof (path), "%s.%s", argv[3], rank ? rank : "0");
        if (!(options.errors = fopen (path, "w")))
            return 2;
    }
    if (fingerprint)
        options.fingerprint = strtoull (fingerprint, NULL, 10);
    return strcmp (mode, "join") == 0 ? join (&options) : work (&options, mode);
}
