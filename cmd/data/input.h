/* input - documents from files of plain text or JSON lines */
#ifndef CMD_DATA_INPUT_H
#define CMD_DATA_INPUT_H

#include <stdbool.h>
#include <stddef.h>

#include "megatron/error.h"

enum input_format { INPUT_AUTO, INPUT_TEXT, INPUT_JSONL };

/* The places where documents of a plain text begin.  No byte is lost: all documents of a
 * file together are the file.  Blank lines belong to the document before them. */
enum input_cut {
    INPUT_CUT_BLANK_LINE, /* at the first line after blank ones */
    INPUT_CUT_LINE,       /* at every line that is not blank */
    INPUT_CUT_NONE,       /* never: a file is a document */
};

/* The functions that receive the documents.  Each returns 0, or -1 with errno and a text,
 * which ends the reading.  'key' counts from 0. */
struct input_sink {
    /* Receives a piece of the current sequence. */
    int (*text) (void *arg, size_t key, const char *text, size_t size,
                 struct mg_error *err);
    int (*end_sequence) (void *arg, size_t key, struct mg_error *err);
    int (*end_document) (void *arg, size_t key, struct mg_error *err);
    void *arg;
};

/* Receives a line of the file 'path', with its end of line, and its number from 1 on. */
typedef int input_line_f (void *arg, const char *path, size_t number, const char *line,
                          size_t size, struct mg_error *err);

/* Format of a file by its name: JSON lines for .jsonl, .ndjson, .jsonlines and .json, in letters of
 * any case and also before .gz, .bz2, .xz and .zst; else plain text. */
enum input_format input_format_by_name (const char *path);

/* Check, before any file is read, that a file exists and can be decompressed in this
 * build (packed.h).  -1 with errno and a text if not.  A pipe is only checked for
 * permission to read. */
int input_check (const char *path, struct mg_error *err);

/* true if it is a compressed file; a pipe is none */
bool input_is_compressed (const char *path);

/* true if the first line of the file is a JSON object; a pipe has none */
bool input_looks_like_json (const char *path);

/* Read a plain text into key 0, each document one sequence. */
int input_read_text (const char *path, enum input_cut cut, const struct input_sink *sink,
                     struct mg_error *err);

/* Read a file line by line, for JSON lines.  'path' must stay as long as take()'s results
 * are used. */
int input_read_lines (const char *path, input_line_f *take, void *arg,
                      struct mg_error *err);

/* Pass on the documents of a line.  The line is a JSON object, or blank and without
 * documents.  The value of each key is one document: a string, which is one sequence, or
 * an array of strings, each a sequence. A key that is missing is a fault. */
int input_parse_line (const char *line, size_t size, char *const *keys, size_t num_keys,
                      const struct input_sink *sink, struct mg_error *err);

#endif /* CMD_DATA_INPUT_H */
