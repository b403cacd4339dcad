/* args_other - refuse an argument that "megatron train" does not have, and say what to do instead.
 *
 * The table has arguments of Megatron-LM that change nothing here or that this version cannot do,
 * older and shorter names, and options of other commands.
 */
#ifndef LIBCORE_TRAIN_ARGS_OTHER_H
#define LIBCORE_TRAIN_ARGS_OTHER_H

#include <stddef.h>

#include "megatron/error.h"

enum args_other_kind {
    OTHER_NEEDLESS, /* changes nothing here; the text says why */
    OTHER_ABSENT,   /* this version cannot do it; the text says what there is */
    OTHER_INSTEAD,  /* the text is what to give instead */
    OTHER_LAUNCHER  /* an option of srun, sbatch and salloc; the text is what to give here */
};

struct args_other {
    const char *name; /* without "--"; "x-*" stands for every name that begins with "x-" */
    enum args_other_kind kind;
    const char *text;
};

extern const struct args_other args_other_table[];
extern const size_t args_other_num;

/* Refuse "--name", which is no argument; 'name' has 'len' bytes without the dashes.  The text says
 * what to do, or names the nearest argument.  Returns -1 with EINVAL, or ENOTSUP for OTHER_ABSENT.
 */
int args_other_refuse (const char *name, size_t len, struct mg_error *err);

#endif /* LIBCORE_TRAIN_ARGS_OTHER_H */
