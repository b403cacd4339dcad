/* svg.c - write SVG
 *
 * Texts are escaped.  The first failure of a write is kept, and svg_close() returns it.
 */

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "cmd/svg.h"
#include "libcore/file/outfile.h"

enum { TEXT_MAX = 512 };

struct svg {
    struct outfile out;
    FILE *file; /* its stream */
};

static void print_escaped (FILE *f, const char *text)
{
    for (; *text; text++) {
        switch (*text) {
        case '&':
            fputs ("&amp;", f);
            break;
        case '<':
            fputs ("&lt;", f);
            break;
        case '>':
            fputs ("&gt;", f);
            break;
        default:
            fputc (*text, f);
        }
    }
}

static void print_title (FILE *f, const char *text)
{
    fputs ("<title>", f);
    print_escaped (f, text);
    fputs ("</title>\n", f);
}

struct svg *svg_create (const char *path, double width, double height, const char *title,
                        struct mg_error *err)
{
    struct svg *svg = calloc (1, sizeof (*svg));

    if (!svg) {
        mg_error_set (err, ENOMEM, "%s: out of memory", path);
        return NULL;
    }
    if (outfile_create (&svg->out, path, OUTFILE_STREAM, err) < 0
        || outfile_open_stream (&svg->out, err) < 0) {
        outfile_drop (&svg->out);
        free (svg);
        return NULL;
    }
    svg->file = svg->out.stream;
    fprintf (
        svg->file,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.6g %.6g\" width=\""
        "%.6g\" height=\"%.6g\" font-family=\"Helvetica, Arial, sans-serif\">\n",
        width, height, width, height);
    print_title (svg->file, title);
    fprintf (svg->file, "<rect width=\"%.6g\" height=\"%.6g\" fill=\"#ffffff\"/>\n",
             width, height);
    return svg;
}

int svg_close (struct svg *svg, struct mg_error *err)
{
    int rc;

    fputs ("</svg>\n", svg->file);
    rc = outfile_commit (&svg->out, err);
    free (svg);
    return rc;
}

void svg_begin (struct svg *svg, const char *fmt, ...)
{
    char text[TEXT_MAX];
    va_list ap;

    va_start (ap, fmt);
    vsnprintf (text, sizeof (text), fmt, ap);
    va_end (ap);
    fputs ("<g>", svg->file);
    print_title (svg->file, text);
}

void svg_end (struct svg *svg)
{
    fputs ("</g>\n", svg->file);
}

void svg_box (struct svg *svg, double x, double y, double width, double height,
              const char *fill, const char *stroke)
{
    fprintf (svg->file,
             "<rect x=\"%.6g\" y=\"%.6g\" width=\"%.6g\" height=\"%.6g\" fill=\"%s\"", x,
             y, width, height, fill);
    if (width >= 8)
        fputs (" rx=\"2\"", svg->file);
    if (stroke)
        fprintf (svg->file, " stroke=\"%s\" stroke-width=\"1.5\"", stroke);
    fputs ("/>\n", svg->file);
}

void svg_line (struct svg *svg, double x1, double y1, double x2, double y2,
               const char *stroke)
{
    fprintf (svg->file,
             "<line x1=\"%.6g\" y1=\"%.6g\" x2=\"%.6g\" y2=\"%.6g\" stroke=\"%s\"/>\n",
             x1, y1, x2, y2, stroke);
}

void svg_text (struct svg *svg, double x, double y, double size, enum svg_anchor anchor,
               const char *fill, const char *fmt, ...)
{
    static const char *const anchors[] = {
        [SVG_START] = "start",
        [SVG_MIDDLE] = "middle",
        [SVG_END] = "end",
    };
    char text[TEXT_MAX];
    va_list ap;

    va_start (ap, fmt);
    vsnprintf (text, sizeof (text), fmt, ap);
    va_end (ap);
    // not every viewer knows dominant-baseline: figures are 0.7 of the size high
    fprintf (svg->file,
             "<text x=\"%.6g\" y=\"%.6g\" font-size=\"%.6g\" text-anchor=\"%s\" "
             "fill=\"%s\">",
             x, y + 0.35 * size, size, anchors[anchor], fill);
    print_escaped (svg->file, text);
    fputs ("</text>\n", svg->file);
}
