/* fuzz - harnesses for fuzzing: each takes bytes that may be anything and checks what must
 * hold whatever they are.
 *
 * A harness is one file NAME.c with one const struct fuzz_target fuzz_NAME, listed in
 * targets.c.  Two programs link all of them: replay.t runs every file of corpus/NAME once, as
 * a test; fuzzer is libFuzzer's ('make fuzz').  A check that fails prints one line and aborts,
 * which both programs report with the input.
 */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fuzz_target {
    const char *name; /* of the file, and of the corpus's folder */
    /* Feed one input. The bytes are lent for the call, and nothing ends them. */
    void (*run) (const uint8_t *data, size_t size);
};

/* All harnesses, in alphabetic order, NULL at the end. */
extern const struct fuzz_target *const fuzz_targets[];

/* The harness of that name, or NULL. */
const struct fuzz_target *fuzz_find (const char *name);

/* What must hold; the text is printf's. */
#define fuzz_check(condition, ...)                             \
    do {                                                       \
        if (!(condition))                                      \
            fuzz_fail (__FILE__, __LINE__, __VA_ARGS__);       \
    } while (0)
void fuzz_fail (const char *file, int line, const char *fmt, ...)
    __attribute__ ((format (printf, 3, 4), noreturn));

/* An input that is read from the front. */
struct fuzz_input {
    const uint8_t *at;
    size_t left;
};

/* Take a number of 1 to 8 bytes, little-endian; bytes beyond the end are 0. */
uint64_t fuzz_number (struct fuzz_input *in, int bytes);

/* Take a number in [min, max] from two bytes. */
int fuzz_range (struct fuzz_input *in, int min, int max);

/* Take a part: a number of two bytes, then as many bytes as it says, or as there are. */
struct fuzz_input fuzz_part (struct fuzz_input *in);

/* A copy with a zero behind the last byte, which is also the end of the memory. Free it. */
char *fuzz_text (struct fuzz_input in);

/* A copy of exactly that size (of 1 byte if there is none). Free it. */
void *fuzz_copy (struct fuzz_input in);

/* Take the rest as words, each behind an end of line or a zero byte: word[0] is 'first',
 * word[*count] is NULL.  One free() releases all.
 */
char **fuzz_words (struct fuzz_input *in, const char *first, int *count);

/* Path of the program's own folder, which is empty at first and goes when it ends. */
const char *fuzz_folder (void);

/* Write a file there, replacing an older one; its path, valid until the next call but 7. */
const char *fuzz_file (const char *name, struct fuzz_input content);

/* Path of a file there. */
const char *fuzz_path (const char *name);

/* Remove a folder and what is in it. */
void fuzz_remove (const char *path);

/* Is the content of a file just these bytes? */
bool fuzz_same (const char *path, const void *data, size_t size);

#endif /* TESTS_FUZZ_FUZZ_H */
