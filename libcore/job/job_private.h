/* job_private - the members of a job, for the files that implement it. */
#ifndef LIBCORE_JOB_JOB_PRIVATE_H
#define LIBCORE_JOB_JOB_PRIVATE_H

#include <stdbool.h>
#include <stdint.h>

#include "libcore/comm/comm.h"
#include "libcore/comm/nccl_config.h"
#include "libcore/comm/net.h"
#include "libcore/comm/recorder.h"
#include "libcore/device/device.h"
#include "libcore/job/comm_list.h"
#include "libcore/job/job.h"
#include "libcore/job/monitor.h"

struct job {
    struct bootstrap *bootstrap;
    bool own_bootstrap;
    bool ready; /* as far as this rank knows, all ranks have made the whole job */
    struct job_watch watch;
    struct monitor *monitor; /* NULL: one rank, or the monitor is off or could not be started */
    double timeout;
    bool leaves_last;
    struct grid *grid;
    bool groups_transfers;
    bool gpus;              /* all ranks have chosen the device cuda for DEVICE_AUTO */
    struct mg_device *device;
    struct mg_error note;   /* of a choice that this file makes: job_device_note() */
    struct nccl_config *nccl_config; /* NULL: none */
    struct mg_device *host; /* shares with 'device' */
    struct comm_net *net, *control_net; /* the same, if its backend moves host memory, too */
    struct recorder *recorder; /* NULL: one rank has nothing to record */
    struct comm_list list;     /* of data communicators ... */
    struct mg_comm *comm[COMM_NUM_TAGS]; /* ... which are here, by their tags */
    int64_t taken[COMM_NUM_TAGS]; /* bytes that the device has lost by each, beyond comm_bytes() */
    struct mg_comm *control;
};

#endif /* LIBCORE_JOB_JOB_PRIVATE_H */
