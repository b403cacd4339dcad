/* memory - the parts of "megatron plan memory". */
#ifndef CMD_PLAN_MEMORY_H
#define CMD_PLAN_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "libcore/args/args.h"
#include "libcore/infer/start.h"
#include "libcore/train/memory.h"
#include "libcore/train/passes.h"

/* The command line. */
struct plan_memory {
    int world;    /* 0: the ranks of one model */
    int rank;     /* -1: all ranks */
    int threads;  /* threads of each rank; 0: as on this machine */
    bool choices; /* compare choices of recomputation ... */
    int64_t fit;  /* ... and find the choice that fits into so many bytes on each rank; 0:
                   * find none */
    bool json;
    bool evaluate; /* plan a run of megatron eval */
    bool generate; /* plan a run of megatron generate ... */
    struct generator_config generator; /* ... with these numbers */
};

/* The data that is printed for a rank. */
struct plan_memory_row {
    struct memory_plan plan;   /* owns its pools */
    struct passes_plan graphs; /* owns its chunks */
    int threads;
};
void plan_memory_clear (struct plan_memory_row *row);

/* Check that the arguments describe a complete model.  -1, EINVAL and a text if not. */
int plan_memory_check (const struct train_args *args, struct mg_error *err);

/* If no world is given, set request->world to the number of ranks of one model. */
int plan_memory_world (struct plan_memory *request, const struct train_args *args,
                       struct mg_error *err);

/* Plan the 'n' ranks from 'first' on, one row for each.  -1 and a text on failure.  The
 * caller clears the rows in any case.
 */
int plan_memory_ranks (const struct train_args *args, const struct plan_memory *request, int first,
                       int n, struct plan_memory_row *row, struct mg_error *err);

/* True if two ranks allocate the same and have the same graphs. */
bool plan_memory_same (const struct plan_memory_row *a, const struct plan_memory_row *b);

/* Print the memory and the cost of choices of recomputation, and the choice that fits.
 * 'row' has the rows of the ranks for 'args'.  -1 and a text on failure, and if none
 * fits.
 */
int plan_fit (const struct train_args *args, const struct plan_memory *request, int first, int n,
              const struct plan_memory_row *row, struct mg_error *err);

#endif /* CMD_PLAN_MEMORY_H */
