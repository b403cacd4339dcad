/* data_input - documents from files of plain text or JSON lines */
#ifndef CMD_DATA_INPUT_H
#define CMD_DATA_INPUT_H

#include <stddef.h>

#include "megatron/error.h"

enum input_format { INPUT_AUTO, INPUT_TEXT, INPUT_JSONL };

/* Where one document of a plain text ends and the next begins. No byte is lost: the
 * documents of a file, put together, are the file. Blank lines go with the document
 * before them. */
enum input_cut {
    INPUT_CUT_BLANK_LINE, /* at the first line after blank ones */
    INPUT_CUT_LINE,       /* at every line that is not blank */
    INPUT_CUT_NONE,       /* never: a file is a document */
};

/* Who takes the documents. Each function returns 0, or -1 with errno and text, which
 * ends the reading.  'key' counts from 0. */
struct input_sink {
    /* A piece of the sequence under way. */
    int (*text) (void *arg, size_t key, const char *text, size_t size,
                 struct mg_error *err);
    int (*end_sequence) (void *arg, size_t key, struct mg_error *err);
    int (*end_document) (void *arg, size_t key, struct mg_error *err);
    void *arg;
    /* 'size' more bytes of the input are done. */
    int (*progress) (void *progress_arg, size_t size, struct mg_error *err);
    void *progress_arg;
};

/* Format of a file by its name: JSON lines for .jsonl and .json, else plain text. */
enum input_format input_format_by_name (const char *path);

/* Read a plain text into key 0, each document one sequence. */
int input_read_text (const char *path, enum input_cut cut, const struct input_sink *sink,
                     struct mg_error *err);

/* Read a file that has a JSON object a line (blank lines are skipped). The value of each
 * key is one document: a string, which is one sequence, or an array of strings, each a
 * sequence. Faults are told by file and line; a key that is missing is one. */
int input_read_jsonl (const char *path, char *const *keys, size_t num_keys,
                      const struct input_sink *sink, struct mg_error *err);

#endif /* CMD_DATA_INPUT_H */
