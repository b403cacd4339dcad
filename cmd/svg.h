/* svg - write a picture as an SVG file: boxes, lines, words.
 *
 * Lengths are pixels, x to the right and y down.  svg_close() reports failures of all
 * functions.  Texts are escaped.
 */
#ifndef CMD_SVG_H
#define CMD_SVG_H

#include "megatron/error.h"

struct svg;

/* Begin a picture on a white background; viewers show 'title' as its name. NULL and a
 * text if the file cannot be written.
 */
struct svg *svg_create (const char *path, double width, double height, const char *title,
                        struct mg_error *err);

/* End the picture and free 'svg'.  0, or -1 and a text if the file could not be written.
 * A file gets its name when it is complete (outfile.h), so after a failure an older file
 * is unchanged.
 */
int svg_close (struct svg *svg, struct mg_error *err);

/* Set the text that a viewer shows for the shapes up to svg_end() when the mouse points
 * at them. */
void svg_begin (struct svg *svg, const char *fmt, ...)
    __attribute__ ((format (printf, 2, 3)));
void svg_end (struct svg *svg);

/* A box with slightly rounded corners. 'stroke' NULL: no outline. */
void svg_box (struct svg *svg, double x, double y, double width, double height,
              const char *fill, const char *stroke);

void svg_line (struct svg *svg, double x1, double y1, double x2, double y2,
               const char *stroke);

enum svg_anchor { SVG_START, SVG_MIDDLE, SVG_END };

/* Write a line of text that begins at x, is centred at x or ends at x.  y is at half its
 * height. */
void svg_text (struct svg *svg, double x, double y, double size, enum svg_anchor anchor,
               const char *fill, const char *fmt, ...)
    __attribute__ ((format (printf, 7, 8)));

#endif /* CMD_SVG_H */
