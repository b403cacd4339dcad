/* data - the parts of "megatron data", which make, list and inspect datasets.
 *
 * Each part is one row in the table of data.c and follows cmd.h's contract; argv[0] is
 * its name.  Exit status of all: 0, 1 for a failure at work, 2 for a wrong command line.
 */
#ifndef CMD_DATA_DATA_H
#define CMD_DATA_DATA_H

#include <stdbool.h>

#include "cmd/option.h"
#include "cmd/part.h"
#include "libcore/text/tokenizer.h"
#include "megatron/error.h"

enum { DATA_FAILED = 1 };

/* "megatron data tokenize": text to a dataset. */
int data_tokenize (int argc, char **argv);

/* "megatron data index": the tokens of each sample. */
int data_index (int argc, char **argv);

/* "megatron data inspect": check a dataset, and print its contents. */
int data_inspect (int argc, char **argv);

/* "megatron data merge", "megatron data split": documents of datasets to other datasets. */
int data_merge (int argc, char **argv);
int data_split (int argc, char **argv);

/* "megatron data encode", "megatron data decode": one text to token ids, and back. */
int data_encode (int argc, char **argv);
int data_decode (int argc, char **argv);

/* "megatron data train-tokenizer": text to a tokenizer.json. */
int data_train_tokenizer (int argc, char **argv);

/* Options that several parts have: PREFIX, --json, --help; the target is this. */
struct data_common {
    const char *prefix; /* prefix of the dataset, which data_check_prefix() has accepted */
    bool json;
    bool help;
};
extern const struct cmd_option data_common_options[];

/* --help alone; the target is a bool. */
extern const struct cmd_option data_help_options[];

/* --tokenizer-type and the options that name its files; the target is this struct. */
struct data_tokenizer {
    const char *type; /* preset by the part */
    struct tokenizer_files files;
};
extern const struct cmd_option data_tokenizer_options[];

/* Refuse a tokenizer (struct data_tokenizer) whose type is unknown, or whose files do not
 * belong to its type.  -1, EINVAL and a text.
 */
int data_tokenizer_check (void *tokenizer, struct mg_error *err);

/* Refuse an empty name of a file: -1, EINVAL and a text. */
int data_check_name (const char *what, const char *value, struct mg_error *err);

/* Refuse a prefix of a dataset that is empty, or that is the name of one of its two files: -1,
 * EINVAL and a text.
 */
int data_check_prefix (const char *what, const char *value, struct mg_error *err);

/* Set the text at option->at of the target to a prefix that passes data_check_prefix().  A word
 * (name "") can be given once.  (The setter of a struct cmd_option.)
 */
int data_set_prefix (void *target, const struct cmd_option *option, const char *what,
                     const char *value, struct mg_error *err);

/* Print a JSON string. */
void data_print_string (const char *text);

/* Print one line on standard error.  The first function returns CMD_USAGE, the second
 * DATA_FAILED. */
int data_usage_error (const char *part, const struct mg_error *err);
int data_failure (const char *part, const struct mg_error *err);

#endif /* CMD_DATA_DATA_H */
