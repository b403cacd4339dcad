/* The one error type of the project.
 *
 * A function that can fail returns 0 or -1 (or a pointer or NULL), sets errno and,
 * when given a non-NULL 'struct mg_error *', leaves one line of text in it: what
 * failed, where, the value, and what is allowed.  A failing function leaves no side
 * effect behind.  Nothing in the library prints or exits.
 */
#ifndef MEGATRON_ERROR_H
#define MEGATRON_ERROR_H

#ifdef __cplusplus
extern "C" {
#endif

enum { MG_ERROR_MAX = 400 };

struct mg_error {
    char text[MG_ERROR_MAX]; /* one line, always terminated, no final newline */
};

/* Write a formatted text into 'err' (NULL is allowed), set errno to 'errnum' and return
 * -1, so that an error path is one line:
 *
 *     return mg_error_set (err, EINVAL, "tp %d does not divide %d heads", tp, heads);
 *
 * A text that does not fit loses its middle: its beginning and its end stay, with "..."
 * between them.  Control characters become '?', so that the text stays one line.  The
 * arguments may point into err->text.
 */
int mg_error_set (struct mg_error *err, int errnum, const char *fmt, ...)
    __attribute__ ((format (printf, 3, 4)));

/* Put "what: " in front of the text already in 'err' (NULL is allowed), keep errno and
 * return -1.  A caller uses this to add its own context.
 */
int mg_error_prefix (struct mg_error *err, const char *fmt, ...)
    __attribute__ ((format (printf, 2, 3)));

#ifdef __cplusplus
}
#endif

#endif /* MEGATRON_ERROR_H */
