/* timeline.c - a schedule's passes in time: the idle share, and the picture */

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "cmd/plan/timeline.h"
#include "cmd/svg.h"

static int length (const struct sched_pass *p)
{
    return p->backward ? MOMENTS_BACKWARD : MOMENTS_FORWARD;
}

void timeline_destroy (struct timeline *t)
{
    if (t) {
        int saved_errno = errno;
        moments_destroy (t->moments);
        free (t);
        errno = saved_errno;
    }
}

struct timeline *timeline_create (const struct sched_kind *kind,
                                  const struct sched_shape *shape, struct mg_error *err)
{
    struct timeline *t = calloc (1, sizeof (*t));

    if (!t) {
        mg_error_set (err, ENOMEM, "out of memory for the timeline");
        return NULL;
    }
    t->pp = shape->pp;
    t->chunks = kind->chunks;
    t->microbatches = shape->microbatches;
    if (!(t->moments = moments_create (kind, shape, err))) {
        timeline_destroy (t);
        return NULL;
    }
    t->end = moments_last (t->moments);
    return t;
}

double timeline_bubble (const struct timeline *t)
{
    double work = 0;
    size_t n;
    const struct sched_pass *pass = moments_passes (t->moments, 0, &n);

    for (size_t i = 0; i < n; i++)
        work += length (&pass[i]); // the same on every rank
    return 1 - work / t->end;
}

/* --- the picture --- */

enum {
    LEFT = 70,
    RIGHT = 24,
    TOP = 58,
    BOTTOM = 64,
    ROW = 30, /* from one rank to the next */
    BOX = 24, /* height of a pass */
    WIDEST = 28, /* unit of time */
    PLOT = 1300, /* width that units shrink to fit in */
    NARROWEST = 720,
};

static const char ink[] = "#1f2937", soft[] = "#6b7280", rule[] = "#d1d5db";
static const char waiting[] = "#f3f4f6";

/* From dark for the first chunk to light for the last. */
static void shade (bool backward, int chunk, int chunks, char color[8])
{
    static const int dark[2][3] = { { 30, 64, 175 }, { 21, 94, 58 } };
    static const int light[2][3] = { { 191, 219, 254 }, { 187, 237, 204 } };
    double x = chunks > 1 ? (double)chunk / (chunks - 1) : 0.25;
    int c[3];

    for (int i = 0; i < 3; i++)
        c[i] = (int)(dark[backward][i] + x * (light[backward][i] - dark[backward][i])
                     + 0.5);
    snprintf (color, 8, "#%02x%02x%02x", c[0] & 255, c[1] & 255, c[2] & 255);
}

static const char *text_color (int chunk, int chunks)
{
    return chunks > 1 && 2 * chunk >= chunks ? ink : "#ffffff";
}

/* Width of a pass that has room for its number. */
static double number_width (const struct timeline *t)
{
    int most = t->microbatches;

    return most > 1000 ? 26 : most > 100 ? 19 : most > 10 ? 15 : 11;
}

static void draw_number (struct svg *svg, const struct timeline *t, const struct sched_pass *p,
                         double x, double y, double width, const char *color)
{
    if (width >= number_width (t))
        svg_text (svg, x + (width - 1) / 2, y + BOX / 2.0, t->microbatches > 100 ? 9 : 11,
                  SVG_MIDDLE, color, "%d", p->microbatch);
}

static void draw_pass (struct svg *svg, const struct timeline *t,
                       const struct sched_pass *p, double x, double y, double width)
{
    char color[8];

    shade (p->backward, p->chunk, t->chunks, color);
    svg_begin (svg, "%s microbatch %d, virtual stage %d",
               p->backward ? "backward" : "forward", p->microbatch, p->chunk);
    svg_box (svg, x, y, width > 3 ? width - 1 : width, BOX, color, NULL);
    draw_number (svg, t, p, x, y, width, text_color (p->chunk, t->chunks));
    svg_end (svg);
}

/* [backward][eager] */
static const char *const part_color[2][2] = { { "#60a5fa", "#fdba74" },
                                              { "#4ade80", "#fcd9a8" } };

/* A pass of which the part 'share' is captured. */
static void draw_parts (struct svg *svg, const struct timeline *t, const struct sched_pass *p,
                        double share, double x, double y, double width)
{
    double box = width > 3 ? width - 1 : width;

    svg_begin (svg, "%s microbatch %d, virtual stage %d: %.1f%% captured",
               p->backward ? "backward" : "forward", p->microbatch, p->chunk, 100 * share);
    if (share > 0)
        svg_box (svg, x, y, share * box, BOX, part_color[p->backward][0], NULL);
    if (share < 1)
        svg_box (svg, x + share * box, y, (1 - share) * box, BOX, part_color[p->backward][1],
                 NULL);
    draw_number (svg, t, p, x, y, width, ink);
    svg_end (svg);
}

/* Lines at round times, about ten of them. */
static void draw_axis (struct svg *svg, const struct timeline *t, double unit,
                       double bottom)
{
    static const int steps[] = { 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000 };
    int step = 10000;

    for (size_t i = 0; i < sizeof (steps) / sizeof (steps[0]); i++) {
        if (t->end / steps[i] <= 12) {
            step = steps[i];
            break;
        }
    }
    for (int time = 0; time <= t->end; time += step) {
        double x = LEFT + time * unit;

        svg_line (svg, x, TOP - 4, x, bottom, rule);
        svg_text (svg, x, bottom + 10, 10, SVG_MIDDLE, soft, "%d", time);
    }
}

static void draw_legend (struct svg *svg, const struct timeline *t, bool numbers,
                         double y)
{
    double x = LEFT;

    for (int backward = 0; backward <= 1; backward++) {
        svg_text (svg, x, y, 11, SVG_START, ink, "%s", backward ? "backward" : "forward");
        x += backward ? 62 : 50;
        for (int c = 0; c < t->chunks; c++) {
            char color[8];

            shade (backward, c, t->chunks, color);
            svg_box (svg, x, y - 8, 16, 16, color, NULL);
            if (t->chunks > 1)
                svg_text (svg, x + 8, y, 10, SVG_MIDDLE, text_color (c, t->chunks), "%d",
                          c);
            x += 18;
        }
        x += 18;
    }
    svg_text (svg, x, y, 11, SVG_START, soft, "%s%s",
              t->chunks > 1 ? "number here: virtual stage" : "",
              !numbers ? "" : t->chunks > 1 ? "; on a pass: microbatch"
                                            : "number on a pass: microbatch");
}

static void draw_parts_legend (struct svg *svg, bool numbers, double y)
{
    static const char *const words[2][2] = { { "forward: in graphs", "eager" },
                                             { "backward: in graphs", "eager" } };
    static const int widths[2][2] = { { 118, 56 }, { 126, 56 } };
    double x = LEFT;

    for (int i = 0; i < 4; i++) {
        svg_box (svg, x, y - 8, 16, 16, part_color[i / 2][i % 2], NULL);
        svg_text (svg, x + 21, y, 11, SVG_START, ink, "%s", words[i / 2][i % 2]);
        x += 21 + widths[i / 2][i % 2];
    }
    svg_text (svg, x, y, 11, SVG_START, soft, "parts by floating-point operations%s",
              numbers ? "; number: microbatch" : "");
}

static void draw_rank (struct svg *svg, const struct timeline *t, int rank,
                       const double *captured, double unit, double y)
{
    size_t n;
    const struct sched_pass *pass = moments_passes (t->moments, rank, &n);

    svg_text (svg, LEFT - 10, y + BOX / 2.0, 12, SVG_END, ink, "rank %d", rank);
    svg_box (svg, LEFT, y, t->end * unit, BOX, waiting, NULL);
    for (size_t i = 0; i < n; i++) {
        const struct sched_pass *p = &pass[i];
        int begin = moments_begin (t->moments, p->chunk * t->pp + rank, p->microbatch, p->backward);
        double x = LEFT + begin * unit, width = length (p) * unit;

        if (captured)
            draw_parts (svg, t, p, captured[rank * t->chunks + p->chunk], x, y, width);
        else
            draw_pass (svg, t, p, x, y, width);
    }
}

int timeline_draw (const struct timeline *t, const char *path, const char *title,
                   const double *captured, struct mg_error *err)
{
    double unit = (double)PLOT / t->end < WIDEST ? (double)PLOT / t->end : WIDEST;
    double width = LEFT + t->end * unit + RIGHT, bottom = TOP + (double)t->pp * ROW;
    struct svg *svg;

    if (width < NARROWEST)
        width = NARROWEST;
    if (!(svg = svg_create (path, width, bottom + BOTTOM, title, err)))
        return -1;
    svg_text (svg, LEFT, 20, 15, SVG_START, ink, "%s", title);
    svg_text (
        svg, LEFT, 39, 11, SVG_START, soft,
        "waiting %.1f%% of the time, if a backward pass takes two forward passes and "
        "transfers take none",
        100 * timeline_bubble (t));
    draw_axis (svg, t, unit, bottom);
    for (int r = 0; r < t->pp; r++)
        draw_rank (svg, t, r, captured, unit, TOP + (double)r * ROW);
    if (captured)
        draw_parts_legend (svg, MOMENTS_BACKWARD * unit >= number_width (t), bottom + 38);
    else
        draw_legend (svg, t, MOMENTS_BACKWARD * unit >= number_width (t), bottom + 38);
    return svg_close (svg, err);
}
