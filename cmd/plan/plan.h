/* plan - the parts of "megatron plan", which print what a job would do, without running
 * the job.
 *
 * Each part is one row in the table of plan.c and follows cmd.h's contract; argv[0] is
 * its name.  Exit status of all: 0, 1 if the plan is not possible, 2 for a wrong command
 * line.
 */
#ifndef CMD_PLAN_PLAN_H
#define CMD_PLAN_PLAN_H

#include <stdbool.h>

#include "cmd/option.h"
#include "cmd/part.h"
#include "libcore/topo/geometry.h"

enum { PLAN_IMPOSSIBLE = 1 };

/* "megatron plan buffers": the places of parameters and gradients, and their owners. */
int plan_buffers (int argc, char **argv);

/* "megatron plan graphs": the parts of a run that are captured into device graphs, and
 * their memory. */
int plan_graphs (int argc, char **argv);

/* "megatron plan groups": the members of groups. */
int plan_groups (int argc, char **argv);

/* "megatron plan check": every rule that the sizes break. */
int plan_check (int argc, char **argv);

/* "megatron plan layers": the layers of every pipeline stage. */
int plan_layers (int argc, char **argv);

/* "megatron plan loss-scale": the loss scale after good iterations and overflows. */
int plan_loss_scale (int argc, char **argv);

/* "megatron plan lr": learning rate and weight decay at given steps. */
int plan_lr (int argc, char **argv);

/* "megatron plan memory": the memory that every rank allocates. */
int plan_memory (int argc, char **argv);

/* "megatron plan moe": the bytes that experts' tokens move within and between nodes. */
int plan_moe (int argc, char **argv);

/* "megatron plan schedule": the order of passes of every pipeline rank. */
int plan_schedule (int argc, char **argv);

/* The options for the parallel sizes, --tp to --order and --world-size; the target is a
 * struct geometry.
 */
extern const struct cmd_option plan_geometry_options[];

/* The options of every part, --json and --help; the target is this struct. */
struct plan_common {
    bool json;
    bool help;
};
extern const struct cmd_option plan_common_options[];

/* Divide the words of a command line into two lists.  The words of 'options' and of the
 * common options belong to the part; all other words are arguments of megatron train
 * about the model. argv[0] is in both lists; each list has room for argc words.
 */
void plan_part_words (const struct cmd_option *options, int argc, char **argv, int *num_own,
                      char **own, int *num_rest, char **rest);

/* A part whose command line has its own options, and megatron train's arguments about a
 * model.  Its functions return 0, or -1 and a text.
 */
struct train_args;
struct plan_model_part {
    const struct cmd_option *options; /* options that fill the request */
    const char *usage;                /* text of --help before the options */
    /* Refuse a wrong command line. */
    int (*check) (const void *request, const struct train_args *args, struct mg_error *err);
    /* Print the plan. */
    int (*show) (void *request, bool json, const struct train_args *args, struct mg_error *err);
};

/* Read the command line into 'request' and run the part; returns the exit status. */
int plan_run_model (const struct plan_model_part *part, void *request, int argc, char **argv);

/* Returns the first missing argument that every model needs, such as "--num-layers", or NULL.
 */
const char *plan_missing_argument (const struct train_args *args);

/* The row of one of megatron train's arguments, for a table whose target is a struct
 * train_args; its help is 'help', unless 'help' is NULL.
 */
struct cmd_option plan_train_option (const char *name, const char *help);

/* Copy the first 'n' bytes of 'text', a word of a list of numbers.  -1 and a text if the
 * word is longer than a number can be.
 */
enum { PLAN_WORD = 32 };
int plan_list_word (const char *what, const char *text, size_t n, char word[PLAN_WORD],
                    struct mg_error *err);

/* Write a number with the fewest digits that are read as the same number, for text and
 * JSON; "inf" is in quotes. */
void plan_shortest (double value, char text[32]);

/* Print one line on standard error about a mistake on the command line.  Returns CMD_USAGE. */
int plan_usage_error (const char *part, const struct mg_error *err);

/* The same after megatron train's arguments were read: the text then has all refused arguments.
 */
int plan_refuse (const char *part, const struct train_args *args, const struct mg_error *err);

/* "megatron plan check -- ARGUMENT...": check the arguments as a run would.  argv[0] to
 * argv[own
 * - 1] are the part and its options, argv[own] is "--".  Returns the exit status.
 */
int plan_check_arguments (int own, int argc, char **argv);

/* Print one line without a newline: "dense tp 4 x cp 1 x dp 2 x pp 2, expert etp 1 x
 * ...".  A data-parallel size that is not known without a world is "?".
 */
void plan_print_grids (const struct geometry *g);

/* Print two JSON members: "dense":{"tp":4,...},"expert":{"etp":1,...}.  An unknown size
 * is null. */
void plan_print_grids_json (const struct geometry *g);

#endif /* CMD_PLAN_PLAN_H */
