/* svg - write a picture as an SVG file: boxes, lines, words.
 *
 * Lengths are pixels, x to the right and y down.  Failures are remembered and told by
 * svg_close().  Texts are escaped.
 */
#ifndef CMD_SVG_H
#define CMD_SVG_H

#include "megatron/error.h"

struct svg;

/* Begin a picture on white ground; 'title' is what a viewer shows as its name. NULL and a
 * text if the file cannot be written.
 */
struct svg *svg_create (const char *path, double width, double height, const char *title,
                        struct mg_error *err);

/* End it and free: 0, or -1 and a text if not all of it was written.  A file has its name
 * only once it is whole (outfile.h): after a failure the one before is there.
 */
int svg_close (struct svg *svg, struct mg_error *err);

/* What the shapes that follow say when they are pointed at, until svg_end(). */
void svg_begin (struct svg *svg, const char *fmt, ...)
    __attribute__ ((format (printf, 2, 3)));
void svg_end (struct svg *svg);

/* A box with slightly rounded corners. 'stroke' NULL: no outline. */
void svg_box (struct svg *svg, double x, double y, double width, double height,
              const char *fill, const char *stroke);

void svg_line (struct svg *svg, double x1, double y1, double x2, double y2,
               const char *stroke);

enum svg_anchor { SVG_START, SVG_MIDDLE, SVG_END };

/* Words on one line, from, around or up to x, with y at half their height. */
void svg_text (struct svg *svg, double x, double y, double size, enum svg_anchor anchor,
               const char *fill, const char *fmt, ...)
    __attribute__ ((format (printf, 7, 8)));

#endif /* CMD_SVG_H */
