/* other - arguments of Megatron-LM that "megatron train" does not have.  An argument is
 * accepted if it changes nothing here, or if it only adds output, speed or saved memory
 * in Megatron-LM; one line at the start of a run names these arguments.  An argument that
 * would change the model or the training is refused, as are older and shorter names,
 * options of other commands, and unknown names.  One message names all refused arguments
 * and their replacements.  The kind of every argument is in one table, kinds.c.
 */
#ifndef LIBCORE_ARGS_OTHER_H
#define LIBCORE_ARGS_OTHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "megatron/error.h"

enum args_other_kind {
    OTHER_NEEDLESS,  /* changes nothing here; the text says why */
    OTHER_ELSEWHERE, /* only adds output, speed or saved memory in Megatron-LM; the text
                        names what is here instead */
    OTHER_ABSENT,    /* would change the model or the training; the text names what is
                      * here instead */
    OTHER_INSTEAD,   /* another name of an argument; the text is the name to use */
    OTHER_LAUNCHER,  /* an option of srun, sbatch and salloc; the text is the argument to
                      * use here */
    OTHER_UNKNOWN,   /* the name is in no row */
    OTHER_NUM_KINDS
};

/* The words that follow the name. */
enum args_other_words {
    OTHER_FLAG,  /* nothing */
    OTHER_VALUE, /* one word, or the text after "=" */
    OTHER_LIST   /* any number of words, up to the next argument */
};

struct args_other {
    const char *name; /* without "--"; "x-*" stands for every name that begins with "x-" */
    enum args_other_kind kind;
    enum args_other_words words;
    bool said;          /* the line at the start of a run has the text, too */
    const char *values; /* for OTHER_ABSENT: values, separated by '|', that ask for what
                           happens anyway; with such a value the argument is
                           OTHER_NEEDLESS.  For OTHER_NEEDLESS: "megatron train" has the
                           argument, but these values of it change nothing here.  NULL: none */
    const char *text;
};

extern const struct args_other args_other_table[];
extern const size_t args_other_num;

/* Returns the row of a name of 'len' bytes, or NULL. */
const struct args_other *args_other_find (const char *name, size_t len);

/* True if "megatron train" has an argument, but this value of it changes nothing here. */
bool args_other_value (const char *name, size_t len, const char *value);

/* An argument that was given. */
struct args_given {
    const struct args_other *row; /* NULL: OTHER_UNKNOWN */
    enum args_other_kind kind;    /* the kind, in view of the value */
    const char *name, *value;     /* as typed; value NULL: none */
    int name_len;
    const char *file; /* the file that has the argument, and the line; NULL: the command line */
    int line;
};

/* All arguments that were given, each name once, with its last value. */
struct args_others {
    struct args_given *given;
    size_t n;
    char *refusal; /* the whole message of args_others_check(); NULL: none */
};

void args_others_clear (struct args_others *o);

/* Add the argument at argv[*i], which "megatron train" does not have, and advance *i
 * beyond the argument and its words.  If 'o' is NULL, only advance *i.  'file' and 'line'
 * are the argument's place in a file of arguments.  -1 and a text, with EINVAL if a value
 * is missing or not allowed, or ENOMEM.
 */
int args_others_add (struct args_others *o, int argc, char **argv, int *i, const char *file,
                     int line, struct mg_error *err);

/* Forget the argument NAME VALUE: because of another argument, this value changes something. */
void args_others_forget (struct args_others *o, const char *name, const char *value);

/* Refuse all arguments that are not accepted, in one message.  With 'strict', refuse
 * every argument. -1 with ENOTSUP if all refused arguments are OTHER_ABSENT, else with
 * EINVAL.  o->refusal has the whole message, 'err' its first MG_ERROR_MAX bytes at most.
 */
int args_others_check (struct args_others *o, bool strict, struct mg_error *err);

/* Print the line that names the accepted arguments, if there are any. */
void args_others_print (const struct args_others *o, FILE *out);

/* Print 'title', then the arguments of a kind, one on each line, with the reason.  Prints
 * nothing if there are none. */
void args_others_list (const struct args_others *o, enum args_other_kind kind, const char *title,
                       FILE *out);

#endif /* LIBCORE_ARGS_OTHER_H */
