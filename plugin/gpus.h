/* gpus - what a command line asks of Slurm's GPUs, against the number of tasks.
 *
 * A rank computes on one GPU.  This file reads the values of Slurm's options that ask for
 * GPUs and compares them with the tasks.  It does not depend on Slurm: the caller passes the
 * texts of the options.  A value that is not understood counts as not known, since Slurm
 * checks the form itself.  Nothing here allocates.
 */
#ifndef PLUGIN_GPUS_H
#define PLUGIN_GPUS_H

#include <stdbool.h>

#include "megatron/error.h"

/* Slurm's options that this file reads. */
enum gpus_option {
    GPUS_JOB,        /* --gpus=[TYPE:]N[,...], of the whole job */
    GPUS_NODE,       /* --gpus-per-node, the same form */
    GPUS_SOCKET,     /* --gpus-per-socket, the same form */
    GPUS_TASK,       /* --gpus-per-task, the same form */
    GPUS_GRES,       /* --gres=gpu[:TYPE][:N][,...], of each node */
    GPUS_TRES_TASK,  /* --tres-per-task=gres/gpu[:TYPE][:N][,...], of each task */
    GPUS_TASKS_EACH, /* --ntasks-per-gpu=N */
    GPUS_BIND,       /* --gpu-bind=[verbose,]KIND */
    GPUS_TRES_BIND,  /* --tres-bind, a later form of --gpu-bind; its value is not read */
    GPUS_NUM
};

/* Names for slurmopt_get(), without the dashes. */
extern const char *const gpus_options[GPUS_NUM];

/* What is known of the tasks; 0: not known. */
struct gpus_tasks {
    int world;    /* tasks of the job or step */
    int nodes;    /* no more nodes than these */
    int per_node; /* exactly so many tasks on each node */
};

/* The options of one command. */
struct gpus_request {
    const char *text[GPUS_NUM]; /* the value of gpus_options[i], NULL if it was not given */
    bool job;       /* of sbatch or salloc: a step may ask for GPUs by options of its own */
    bool exclusive; /* the job gets all GPUs of its nodes */
};

/* True if some option asks for at least one GPU, or for a share of one. */
bool gpus_asked (const struct gpus_request *r);

/* Check that no GPU must serve more than 'share' tasks, by the numbers that the options give.  0,
 * or -1, EDOM and one line with the option, its value and a remedy.  Returns 0 if it is not certain
 * how many GPUs there will be.  Several options that give a number are such a case.  So is --gres
 * of sbatch and salloc, and any number of an exclusive job, whose steps may ask for more.
 */
int gpus_check (const struct gpus_request *r, const struct gpus_tasks *tasks, int share,
                struct mg_error *err);

/* What is allowed and worth a line each, in this order. */
enum gpus_warning {
    GPUS_WARN_FEW,    /* a step needs GPU options of its own, since the job's name too few */
    GPUS_WARN_UNUSED, /* more GPUs than tasks can use */
    GPUS_WARN_BIND,   /* a binding hides the GPUs of other tasks */
    GPUS_WARN_MIG,    /* instances of a GPU */
    GPUS_WARN_SHARED, /* shares of a GPU, whose number only the controller knows */
    GPUS_NUM_WARNINGS
};

/* Write the line of one warning; false, and no text, if it does not apply. */
bool gpus_warn (const struct gpus_request *r, const struct gpus_tasks *tasks, int share,
                enum gpus_warning warning, struct mg_error *text);

#endif /* PLUGIN_GPUS_H */
