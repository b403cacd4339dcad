/* input - documents from files of plain text or JSON lines */
#ifndef CMD_DATA_INPUT_H
#define CMD_DATA_INPUT_H

#include <stdbool.h>
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
};

/* Who takes a line of the file 'path', its number from 1 on, and its end of line. */
typedef int input_line_f (void *arg, const char *path, size_t number, const char *line,
                          size_t size, struct mg_error *err);

/* Format of a file by its name: JSON lines for .jsonl, .ndjson, .jsonlines and .json, in letters of
 * any case and also before .gz, .bz2, .xz and .zst; else plain text. */
enum input_format input_format_by_name (const char *path);

/* Find out before any file is read that one is not there, or cannot be decompressed here
 * (data_packed.h): -1 with errno and a text.  Of a pipe, only that it may be read. */
int input_check (const char *path, struct mg_error *err);

/* true if it is a compressed file; a pipe is none */
bool input_is_compressed (const char *path);

/* true if the first line of the file is a JSON object; a pipe has none */
bool input_looks_like_json (const char *path);

/* Read a plain text into key 0, each document one sequence. */
int input_read_text (const char *path, enum input_cut cut, const struct input_sink *sink,
                     struct mg_error *err);

/* Read a file line by line, as JSON lines want it; 'path' is lent to take() for good. */
int input_read_lines (const char *path, input_line_f *take, void *arg,
                      struct mg_error *err);

/* The documents of a line that is a JSON object, or blank: then it has none. The value of
 * each key is one document: a string, which is one sequence, or an array of strings, each
 * a sequence. A key that is missing is a fault. */
int input_parse_line (const char *line, size_t size, char *const *keys, size_t num_keys,
                      const struct input_sink *sink, struct mg_error *err);

#endif /* CMD_DATA_INPUT_H */
