/* file.c - read a file of arguments
 *
 * Words are made in place: no word is longer than its source, and the zero at its end
 * replaces the separator.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libcore/file/durable.h"
#include "libcore/args/file.h"

struct reader {
    struct args_file *file;
    const char *in; /* next to read; ends with a zero */
    char *out;      /* next to write, never behind 'in' */
    int line;
    int room; /* for words */
};

static bool is_space (char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Length of the end of line at 'text': LF or CR LF; 0: there is none. */
static size_t line_end (const char *text)
{
    if (text[0] == '\n')
        return 1;
    return text[0] == '\r' && text[1] == '\n' ? 2 : 0;
}

/* Step over white space and comments. */
static void skip_blank (struct reader *r)
{
    for (;;) {
        if (*r->in == '#')
            r->in += strcspn (r->in, "\n");
        if (!is_space (*r->in))
            return;
        r->line += *r->in++ == '\n';
    }
}

static int add_word (struct reader *r, char *word, struct mg_error *err)
{
    struct args_file *f = r->file;

    if (f->count + 1 >= r->room) { // one more for the NULL at the end
        int room = r->room > 0 ? 2 * r->room : 64;
        char **words = realloc (f->word, (size_t)room * sizeof (*words));
        int *lines;

        if (words)
            f->word = words;
        lines = words ? realloc (f->line, (size_t)room * sizeof (*lines)) : NULL;
        if (!lines)
            return mg_error_set (err, ENOMEM, "%s: out of memory", f->path);
        f->line = lines;
        r->room = room;
    }
    f->word[f->count] = word;
    f->line[f->count++] = r->line;
    f->word[f->count] = NULL;
    return 0;
}

/* Read the text between quotes.  The first quote has been read. */
static int read_quoted (struct reader *r, char quote, struct mg_error *err)
{
    while (*r->in != quote) {
        if (*r->in == '\0' || line_end (r->in) > 0)
            return mg_error_set (err, EINVAL, "%s:%d: a %s quote is not closed on its line",
                                 r->file->path, r->line, quote == '"' ? "double" : "single");
        if (quote == '"' && r->in[0] == '\\' && (r->in[1] == '"' || r->in[1] == '\\'))
            r->in++;
        *r->out++ = *r->in++;
    }
    r->in++;
    return 0;
}

/* One word from r->in on, and what separates it from the next. */
static int read_word (struct reader *r, struct mg_error *err)
{
    char *word = r->out;
    bool any = false; // a word has begun, perhaps with an empty pair of quotes

    if (add_word (r, word, err) < 0)
        return -1;
    while (*r->in && !is_space (*r->in)) {
        char c = *r->in++;
        size_t end = c == '\\' ? line_end (r->in) : 0;

        if (end > 0 || (c == '\\' && *r->in == '\0')) {
            r->in += end;
            r->line += end > 0;
            if (!any)
                break; // a comment may follow
            continue;
        }
        any = true;
        if (c == '\'' || c == '"') {
            if (read_quoted (r, c, err) < 0)
                return -1;
            continue;
        }
        *r->out++ = c == '\\' ? *r->in++ : c;
    }
    if (!any) {
        r->file->word[--r->file->count] = NULL;
        return 0;
    }
    if (*r->in)
        r->line += *r->in++ == '\n';
    *r->out++ = '\0';
    return 0;
}

static int read_words (struct args_file *f, struct mg_error *err)
{
    struct reader r = { .file = f, .in = f->text, .out = f->text, .line = 1 };

    for (;;) {
        skip_blank (&r);
        if (*r.in == '\0')
            return 0;
        if (read_word (&r, err) < 0)
            return -1;
    }
}

static int check_text (const struct args_file *f, size_t size, struct mg_error *err)
{
    const char *zero = memchr (f->text, '\0', size);
    int line = 1;

    if (!zero)
        return 0;
    for (const char *c = f->text; c < zero; c++)
        line += *c == '\n';
    return mg_error_set (err, EINVAL, "%s:%d: a zero byte: it is no text", f->path, line);
}

struct args_file *args_file_parse (const char *path, const char *text, size_t size,
                                   struct mg_error *err)
{
    struct args_file *f;

    if (size > ARGS_FILE_MAX) {
        mg_error_set (err, EFBIG, "%s: more than %d bytes are too many for arguments", path,
                      (int)ARGS_FILE_MAX);
        return NULL;
    }
    if (!(f = calloc (1, sizeof (*f))) || !(f->path = strdup (path))
        || !(f->text = malloc (size + 2))) {
        mg_error_set (err, ENOMEM, "%s: out of memory", path);
        goto error;
    }
    memcpy (f->text, text, size);
    f->text[size] = f->text[size + 1] = '\0';
    if (check_text (f, size, err) < 0 || read_words (f, err) < 0)
        goto error;
    return f;
error:
    args_file_destroy (f);
    return NULL;
}

char *args_file_bytes (const char *path, size_t max, size_t *size, struct mg_error *err)
{
    char *bytes = malloc (max + 1);
    int fd = bytes ? open (path, O_RDONLY | O_CLOEXEC) : -1;
    ssize_t n = fd >= 0 ? durable_read_full (fd, bytes, max + 1) : -1;

    if (!bytes)
        mg_error_set (err, ENOMEM, "%s: out of memory", path);
    else if (n < 0)
        mg_error_set (err, errno, "cannot %s %s: %s", fd < 0 ? "open" : "read", path,
                      strerror (errno));
    if (fd >= 0) {
        int saved_errno = errno;
        close (fd);
        errno = saved_errno;
    }
    if (n < 0) {
        free (bytes);
        return NULL;
    }
    *size = (size_t)n;
    return bytes;
}

struct args_file *args_file_read (const char *path, struct mg_error *err)
{
    struct args_file *f;
    size_t size;
    char *text = args_file_bytes (path, ARGS_FILE_MAX, &size, err);

    if (!text)
        return NULL;
    f = args_file_parse (path, text, size, err);
    free (text);
    return f;
}

void args_file_destroy (struct args_file *f)
{
    if (f) {
        int saved_errno = errno;
        free (f->path);
        free (f->text);
        free (f->word);
        free (f->line);
        free (f);
        errno = saved_errno;
    }
}
