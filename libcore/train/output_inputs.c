/* output_inputs.c - no output of a run replaces what the run reads
 *
 * Weights that the run starts from are no input in this sense: a run may go on in the same file.
 */

#include <stddef.h>

#include "libcore/data/indexed.h"
#include "libcore/file/outfile.h"
#include "libcore/train/output_inputs.h"

static int check_input (const char *input, const char *output, struct mg_error *err)
{
    return outfile_check_input (output, input, err);
}

/* The files of datasets; a word that is a weight names none. */
static int check_list (const char *output, const struct arg_list *list, struct mg_error *err)
{
    int rc = 0;

    for (int i = 0; rc == 0 && i < list->count; i++)
        rc = indexed_check_files (arg_list_word (list, i), check_input, output, err);
    return rc;
}

static int check_one (const char *output, const struct train_args *args, struct mg_error *err)
{
    const char *const files[] = { args->vocab_file, args->merge_file, args->tokenizer_model };
    const struct arg_list *const lists[] = { &args->data_path, &args->train_data_path,
                                               &args->valid_data_path, &args->test_data_path };
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < sizeof (files) / sizeof (files[0]); i++)
        rc = files[i] ? outfile_check_input (output, files[i], err) : 0;
    for (size_t i = 0; rc == 0 && i < sizeof (lists) / sizeof (lists[0]); i++)
        rc = check_list (output, lists[i], err);
    return rc;
}

int output_check_inputs (const struct train_args *args, struct mg_error *err)
{
    const struct {
        const char *argument, *path;
    } outputs[] = {
        { "--save-weights", args->save_weights },
        { "--save-gradients", args->save_gradients },
        { "--metrics-file", args->metrics_file },
        { "--trace-file", args->trace_file },
    };

    for (size_t i = 0; i < sizeof (outputs) / sizeof (outputs[0]); i++) {
        if (outputs[i].path && check_one (outputs[i].path, args, err) < 0)
            return mg_error_prefix (err, "%s", outputs[i].argument);
    }
    return 0;
}
