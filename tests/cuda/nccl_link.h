/* nccl_link - the memory that the ranks of a communicator of the double of NCCL share
 *
 * An id names the memory: the process that made it, and a descriptor of that process.  No file has
 * a name, so nothing stays when processes are killed.  A member maps the memory through /proc.
 *
 * A process is gone if it has ended, even if nobody has waited for it yet.  Its number and its time
 * of start name it: a later process may get the same number.
 */
#ifndef TESTS_CUDA_NCCL_LINK_H
#define TESTS_CUDA_NCCL_LINK_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <atomic>

#include <nccl.h>

enum { LINK_MAX_RANKS = 64, LINK_RING = 1 << 16 };

struct link_process {
    std::atomic<pid_t> pid; /* 0: it has not come yet */
    std::atomic<uint64_t> start;
};

struct link_ring {
    std::atomic<uint64_t> head, tail; /* bytes written, and read */
    char data[LINK_RING];
};

struct link_memory {
    char key[16]; /* of the id */
    std::atomic<int> came, failed, nranks;
    struct link_process process[LINK_MAX_RANKS];
    std::atomic<int> finished[LINK_MAX_RANKS];
    struct link_ring rings[]; /* from * nranks + to */
};

/* Make new memory and its id.  ncclSystemError if there is none. */
ncclResult_t link_offer (ncclUniqueId *id);

/* Map the memory of an id, as rank 'rank' of n, and wait for the other ranks, or until *aborted.
 * ncclSuccess: all have come.  ncclSystemError: the process that made the id is gone, or has no
 * such memory.  ncclRemoteError: a rank that had come is gone.  ncclInvalidUsage: the rank has come
 * already, or ranks differ in n.  *memory is set in each case, NULL if nothing is mapped.
 */
ncclResult_t link_join (const ncclUniqueId *id, int rank, int n, const std::atomic<int> *aborted,
                        struct link_memory **memory);

/* A rank that is gone though it has not finished; -1: there is none. */
int link_find_gone (struct link_memory *memory);

#endif /* TESTS_CUDA_NCCL_LINK_H */
