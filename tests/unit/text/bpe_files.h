/* bpe_files - write the two files of a byte pair encoding for a test */
#ifndef TESTS_UNIT_TEXT_BPE_FILES_H
#define TESTS_UNIT_TEXT_BPE_FILES_H

#include "tests/unit/data/support.h"

enum { BPE_TOKEN_MAX = 64, BPE_MERGES_MAX = 200 };

/* A merge of two tokens, each as plain ASCII letters. */
struct bpe_merge_text {
    char left[BPE_TOKEN_MAX], right[BPE_TOKEN_MAX];
};

/* The character that stands for a byte, in UTF-8, into to[3]; '\0'-terminated. */
static inline void bpe_character (int byte, char to[3])
{
    int c = 0;
    int next = 256;

    for (int b = 0; b <= byte; b++) {
        bool itself = (b >= 33 && b <= 126) || (b >= 161 && b != 173);

        c = itself ? b : next++;
    }
    if (c < 0x80)
        snprintf (to, 3, "%c", c);
    else
        snprintf (to, 3, "%c%c", 0xc0 | c >> 6, 0x80 | (c & 0x3f));
}

/* encoder.json: the bytes are ids 0-255, what the merges make are the next, in the order
 * of the merges, and the last ends a document. */
static inline void write_vocab (const char *path, const struct bpe_merge_text *merges,
                                size_t n)
{
    FILE *f = fopen (path, "w");

    if (!f)
        bail_out ("cannot write %s", path);
    fprintf (f, "{");
    for (int b = 0; b < 256; b++) {
        char character[3];

        bpe_character (b, character);
        fprintf (f, "\"%s%s\": %d, ", b == '"' || b == '\\' ? "\\" : "", character, b);
    }
    for (size_t i = 0; i < n; i++)
        fprintf (f, "\"%s%s\": %zu, ", merges[i].left, merges[i].right, 256 + i);
    fprintf (f, "\"<|endoftext|>\": %zu}", 256 + n);
    fclose (f);
}

/* vocab.bpe: merge order[i] on line i + 2; 'order' NULL: as they are. */
static inline void write_merges (const char *path, const struct bpe_merge_text *merges,
                                 const size_t *order, size_t n)
{
    FILE *f = fopen (path, "w");

    if (!f)
        bail_out ("cannot write %s", path);
    fprintf (f, "#version: 0.2\n");
    for (size_t i = 0; i < n; i++) {
        const struct bpe_merge_text *m = &merges[order ? order[i] : i];

        fprintf (f, "%s %s\n", m->left, m->right);
    }
    fclose (f);
}

#endif /* TESTS_UNIT_TEXT_BPE_FILES_H */
