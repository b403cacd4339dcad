/* memory - the parts of "megatron plan memory". */
#ifndef CMD_PLAN_MEMORY_H
#define CMD_PLAN_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "libcore/args/args.h"
#include "libcore/train/memory.h"
#include "libcore/train/passes.h"

/* The command line. */
struct plan_memory {
    int world;    /* 0: one model's ranks */
    int rank;     /* -1: all */
    int threads;  /* of each rank; 0: as here */
    bool choices; /* compare choices of recomputation ... */
    int64_t fit;  /* ... and find the one for so many bytes a rank; 0: do not */
    bool json;
};

/* What is printed of a rank. */
struct plan_memory_row {
    struct memory_plan plan;   /* with pools of its own */
    struct passes_plan graphs; /* with chunks of its own */
    int threads;
};
void plan_memory_clear (struct plan_memory_row *row);

/* Has the model all that a plan needs?  -1, EINVAL and a text. */
int plan_memory_check (const struct train_args *args, struct mg_error *err);

/* Without a world there is one model, on as many ranks as it needs: sets request->world. */
int plan_memory_world (struct plan_memory *request, const struct train_args *args,
                       struct mg_error *err);

/* The rows of the 'n' ranks from 'first' on.  -1 and a text on failure; rows that were planned are
 * to be cleared all the same.
 */
int plan_memory_ranks (const struct train_args *args, const struct plan_memory *request, int first,
                       int n, struct plan_memory_row *row, struct mg_error *err);

/* True if two ranks allocate the same and have the same graphs. */
bool plan_memory_same (const struct plan_memory_row *a, const struct plan_memory_row *b);

/* Print what choices of recomputation save and cost, and which one fits.  'row' are the rows of the
 * ranks as 'args' have them.  -1 and a text on failure, and if none fits.
 */
int plan_fit (const struct train_args *args, const struct plan_memory *request, int first, int n,
              const struct plan_memory_row *row, struct mg_error *err);

#endif /* CMD_PLAN_MEMORY_H */
