/* other - arguments of Megatron-LM that "megatron train" does not have: three kinds.
 *
 * What changes nothing here is accepted, and so is what only adds output, speed or saved memory
 * elsewhere; one line at the start of a run names both.  What would change the model or the
 * training is refused, all of it in one message, with what there is instead; so are older and
 * shorter names, options of other commands, and names that nobody knows.
 *
 * The table, kinds.c, is the only place that says of which kind an argument is.
 */
#ifndef LIBCORE_ARGS_OTHER_H
#define LIBCORE_ARGS_OTHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "megatron/error.h"

enum args_other_kind {
    OTHER_NEEDLESS,  /* changes nothing here; the text says why */
    OTHER_ELSEWHERE, /* only adds output, speed or saved memory elsewhere; the text says what there
                        is */
    OTHER_ABSENT,    /* would change the model or the training; the text says what there is */
    OTHER_INSTEAD,   /* another name; the text is what to give instead */
    OTHER_LAUNCHER,  /* an option of srun, sbatch and salloc; the text is what to give here */
    OTHER_UNKNOWN,   /* in no row */
    OTHER_NUM_KINDS
};

/* What follows the name. */
enum args_other_words {
    OTHER_FLAG,  /* nothing */
    OTHER_VALUE, /* one word, or what stands behind "=" */
    OTHER_LIST   /* any number of words, up to the next argument */
};

struct args_other {
    const char *name; /* without "--"; "x-*" stands for every name that begins with "x-" */
    enum args_other_kind kind;
    enum args_other_words words;
    bool said;          /* the line at the start of a run gives the text, too */
    const char *values; /* of OTHER_ABSENT: the values, with '|' between, that are what happens
                           anyway, and make it OTHER_NEEDLESS; NULL: none */
    const char *text;
};

extern const struct args_other args_other_table[];
extern const size_t args_other_num;

/* The row of a name of 'len' bytes, NULL if there is none. */
const struct args_other *args_other_find (const char *name, size_t len);

/* An argument that was given. */
struct args_given {
    const struct args_other *row; /* NULL: OTHER_UNKNOWN */
    enum args_other_kind kind;    /* with regard to its value */
    const char *name, *value;     /* as typed; value NULL: none */
    int name_len;
    const char *file; /* that it stands in, and the line; NULL: the command line */
    int line;
};

/* All that were given, each name once, with its last value. */
struct args_others {
    struct args_given *given;
    size_t n;
    char *refusal; /* the whole message of args_others_check(), NULL: none */
};

void args_others_clear (struct args_others *o);

/* Add the argument at argv[*i], which "megatron train" does not have, and step over it and what
 * follows it; 'o' NULL: step over it only.  'file' and 'line' are where it stands, if that is a
 * file of arguments.  -1 and a text, with EINVAL where a value is missing or too much, or ENOMEM.
 */
int args_others_take (struct args_others *o, int argc, char **argv, int *i, const char *file,
                      int line, struct mg_error *err);

/* Refuse what is not accepted, all in one message; 'strict': whatever is there.  -1 with ENOTSUP
 * if all that is refused is OTHER_ABSENT, else EINVAL.  'err' has at most MG_ERROR_MAX bytes of
 * o->refusal, which has all.
 */
int args_others_check (struct args_others *o, bool strict, struct mg_error *err);

/* Print the line that names what is accepted, if anything is. */
void args_others_tell (const struct args_others *o, FILE *out);

/* Print those of a kind, one a line with the reason, after 'title'; nothing if there are none. */
void args_others_list (const struct args_others *o, enum args_other_kind kind, const char *title,
                       FILE *out);

#endif /* LIBCORE_ARGS_OTHER_H */
