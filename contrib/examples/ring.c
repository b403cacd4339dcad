/* ring.c - join the job, say where this rank stands, sum over tp, pass on along the pipeline
 *
 *     cc -o ring ring.c $(pkg-config --cflags --libs megatron)
 *     srun -n8 --megatron-tp=2 --megatron-pp=2 ./ring
 */
#include <stdio.h>
#include <stdlib.h>

#include <megatron/megatron.h>

static void give_up (struct mg_job *job, const struct mg_error *err)
{
    fprintf (stderr, "ring: %s\n", err->text);
    if (job)
        mg_job_abort (job, 1); /* the other ranks too */
    exit (1);
}

int main (void)
{
    struct mg_error err = { "" };
    struct mg_job *job = mg_job_create (NULL, NULL, &err);
    struct mg_comm *tp, *pp;
    float sum, from = -1;
    int stage;

    if (!job)
        give_up (job, &err);
    tp = mg_job_comm (job, MG_GROUP_TP);
    pp = mg_job_comm (job, MG_GROUP_PP);
    stage = mg_comm_rank (pp);

    /* What ranks of a tensor-parallel group have, added up on each of them. */
    sum = (float)mg_job_rank (job);
    if (mg_comm_all_reduce (tp, &sum, 1, MG_FLOAT32, MG_SUM, NULL, &err) < 0)
        give_up (job, &err);

    /* From each pipeline stage to the next. */
    if (stage > 0
        && mg_comm_recv (pp, &from, 1, MG_FLOAT32, stage - 1, NULL, &err) < 0)
        give_up (job, &err);
    if (stage < mg_comm_size (pp) - 1
        && mg_comm_send (pp, &sum, 1, MG_FLOAT32, stage + 1, NULL, &err) < 0)
        give_up (job, &err);

    printf ("rank %d of %d on node %d: tp %d, pp %d, dp %d; tp sum %g, from stage %d: %g\n",
            mg_job_rank (job), mg_job_world (job), mg_job_node (job), mg_comm_rank (tp), stage,
            mg_job_coord (job, MG_DENSE, MG_AXIS_DP), sum, stage - 1, from);
    mg_job_destroy (job);
    return 0;
}
