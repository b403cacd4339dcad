/* gpus - the GPUs of a job's ranks, as the ranks say them in the handshake.
 *
 * Ranks that talk through NCCL have GPUs of their own and one release of CUDA.  NCCL itself finds a
 * difference late, and some differences not at all: ranks then wait for each other.  Device
 * DEVICE_AUTO of several ranks is that of all of them: GPUs if each rank has one, else the CPU.
 */
#ifndef LIBCORE_JOB_GPUS_H
#define LIBCORE_JOB_GPUS_H

#include <stdbool.h>

#include "libcore/bootstrap/bootstrap.h"
#include "libcore/device/device.h"
#include "libcore/job/handshake.h"

/* What this rank says in the handshake.  'choice' is the GPU, by number or by rank; 'moves': the
 * backend that moves the memory of GPUs has been started.  'own' is filled in all the same if -1 is
 * returned, with a text, because this rank has no GPU.
 */
int gpus_own (const struct bootstrap_info *info, const struct device_choice *choice, bool moves,
              struct handshake_device *own, struct mg_error *err);

/* True if every rank has a GPU of its own and NCCL.  If not, the text names a rank.  The same on
 * all ranks.  Reads the data of all ranks: of the calls of a start, this one alone takes a time
 * that grows with the job, and needs 32 bytes of memory for each rank.
 */
bool gpus_everywhere (struct bootstrap *b, const struct bootstrap_info *info,
                      struct mg_error *why);

/* Compare the GPUs of this node with each other, and the versions of this rank with those of rank
 * 0.  Reads the data of these ranks alone.  -1 and a text: with EBUSY if two ranks of the node have
 * one GPU, which all ranks of the node find; with EPROTO if this rank has another driver or runtime
 * than rank 0.  NCCL takes two ranks on one GPU if the ranks' NCCL_HOSTID differ, or with
 * NCCL_MULTI_RANK_GPU_ENABLE=1: where one of these is set, two ranks may have one.
 */
int gpus_check (struct bootstrap *b, const struct bootstrap_info *info, struct mg_error *err);

#endif /* LIBCORE_JOB_GPUS_H */
