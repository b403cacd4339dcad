/* data - the datasets that arguments name, and their samples.
 *
 * --data-path names a dataset, or a blend of several (blend.h), that --split divides into
 * parts; --train-data-path, --valid-data-path and --test-data-path name those of one part
 * each.  --mock-data names none: its documents are made up (data/mock.h).  A program that has the
 * run may make the samples itself, part by part (data/sample_program.h).
 */
#ifndef LIBCORE_TRAIN_DATA_H
#define LIBCORE_TRAIN_DATA_H

#include <stdbool.h>
#include <stdint.h>

#include "libcore/args/args.h"
#include "libcore/data/blend.h"
#include "libcore/data/gpt_index.h"
#include "libcore/data/sample_program.h"
#include "libcore/data/sample_source.h"
#include "libcore/text/tokenizer.h"
#include "megatron/error.h"

struct data_config {
    struct arg_list all;                   /* --data-path */
    struct arg_list part[SPLIT_NUM_PARTS]; /* --train-data-path ... */
    const char *split;                       /* of 'all' */
    bool mock;                               /* documents are made up */
    const char *loader;                      /* --dataloader-type */
    const char *batches;                     /* file of batches in place of datasets, NULL: none */
    bool from_program[SPLIT_NUM_PARTS];      /* a program makes a part's samples */
    const struct sample_program *program[SPLIT_NUM_PARTS]; /* that program; set by the caller */
    double surplus;                          /* part more asked of each of several datasets */
    const char *cache;                       /* directory for the order of samples, NULL: none */
    int64_t seed;                            /* seed of the order of samples */
    const char *tokenizer;                   /* tokenizer that made the data, NULL: not given */
    struct tokenizer_files tokenizer_files;
    struct train_edit edit;                  /* changes of samples */
    int vocab_size, padded_vocab_size;       /* as given, TRAIN_UNSET: not */
};

/* Check that the arguments about data and tokenizer agree, as far as this is possible
 * without opening a file.  0, or -1 with errno EINVAL and a text that names the argument.
 */
int train_data_check (const struct data_config *c, struct mg_error *err);

/* True if samples are repeated in epochs, each in another order (input_shuffle()). */
bool train_data_is_cyclic (const struct data_config *c);

/* True if data of this part is named.  (The part of --split may still be empty.) */
bool train_data_has (const struct data_config *c, enum split_part part);

/* The datasets of a part: *blend, which the caller clears, and the argument that names them.  False
 * if none are named, or the words are wrong (with a text).
 */
bool train_data_blend (const struct data_config *c, enum split_part part, struct blend *blend,
                       const char **name, struct mg_error *err);

/* Check that the arguments about changes of samples (struct train_edit) agree, as
 * train_data_check() does, which calls this.
 */
int train_edit_check (const struct data_config *c, struct mg_error *err);

/* Check that the tokens exist which changes of samples need, as train_edit_samples() and
 * train_data_eod() do, but without data.  The tokenizer's files are read.  -1 with the
 * errors of these functions.
 */
int train_edit_check_tokens (const struct data_config *c, struct mg_error *err);

/* Find the token that ends a document: --eod-token-id, or else that of the tokenizer,
 * whose files are read.  -1 with errno EINVAL if neither is given, or with the errors of
 * tokenizer_create().
 */
int train_data_eod (const struct data_config *c, int32_t *eod, struct mg_error *err);

/* Find the vocabulary of mock data, and the token that ends its documents.  Both are
 * those of the tokenizer, whose files are read.  Without a tokenizer, they are the given
 * size and its last token.  Errors of train_data_eod().
 */
int train_data_mock (const struct data_config *c, int32_t *vocab_size, int32_t *eod,
                     struct mg_error *err);

/* Returns a source of the samples of 'source' with the changes of 'c', or 'source' itself
 * if 'c' has no changes.  Owns 'source' from the call on, also if the call fails.  NULL
 * with errno EINVAL (a token is not in the vocabulary) and the errors of
 * train_data_eod(); the caller owns the result.
 */
struct sample_source *train_edit_samples (const struct data_config *c, enum split_part part,
                                          struct sample_source *source, struct mg_error *err);

/* A number of samples: as many as one epoch has. */
#define TRAIN_DATA_EPOCH GPT_INDEX_ONE_EPOCH

/* Open the samples of a part.  'num_samples' is the least number, 1 or more, or
 * TRAIN_DATA_EPOCH.  NULL with errno and a text, ENODATA if the part has no documents or
 * not enough of them; the caller owns the result.  Several processes may do this at once,
 * also if they share --data-cache-path.  A process reads the files that an earlier one
 * has written there.
 */
struct sample_source *train_data_open (const struct data_config *c,
                                       enum split_part part, int seq_length,
                                       int64_t num_samples, struct mg_error *err);

#endif /* LIBCORE_TRAIN_DATA_H */
