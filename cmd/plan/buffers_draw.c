/* buffers_draw.c - a map of buffers: buckets, parameters, owners, one strip each
 *
 * Each buffer has three strips, one below the other: its buckets, its parameters and, if it is
 * sharded, the owners of each bucket.  All buffers have one scale, so that a width is a number of
 * elements.
 */

#include <inttypes.h>
#include <stdio.h>

#include "cmd/plan/buffers.h"
#include "cmd/svg.h"

#define N PRId64

enum { WIDTH = 1200, MARGIN = 20, STRIP = 22, GAP = 4, TITLE = 26, HEAD = 40 };
enum { BLOCK = TITLE + 3 * (STRIP + GAP) + 14 };

/* Parameters next to each other, and ranks, differ in colour. */
static const char *const param_colors[] = { "#4e79a7", "#f28e2b", "#59a14f", "#b07aa1",
                                            "#76b7b2", "#edc948" };
static const char *const rank_colors[] = { "#9ecae1", "#fdd0a2", "#a1d99b", "#bcbddc" };
enum {
    NUM_PARAM_COLORS = sizeof (param_colors) / sizeof (param_colors[0]),
    NUM_RANK_COLORS = sizeof (rank_colors) / sizeof (rank_colors[0])
};

struct map {
    const struct plan_buffers *b;
    struct svg *svg;
    double scale; /* pixels an element */
};

static double at (const struct map *m, int64_t element)
{
    return MARGIN + m->scale * (double)element;
}

static void draw_box (const struct map *m, int64_t start, int64_t end, double y,
                      const char *fill, const char *stroke)
{
    svg_box (m->svg, at (m, start), y, at (m, end) - at (m, start), STRIP, fill, stroke);
}

static void draw_bucket (const struct map *m, const struct layout_buffer *buffer, int k,
                         double y)
{
    const struct layout_bucket *b = &buffer->bucket[k];

    svg_begin (m->svg, "bucket %d: [%" N ", %" N "), %" N " of it padding", k, b->start,
               b->end, b->end - b->start - b->unpadded);
    draw_box (m, b->start, b->end, y, "#eeeeee", "#333333");
    svg_end (m->svg);
    if (at (m, b->end) - at (m, b->start) > 24)
        svg_text (m->svg, (at (m, b->start) + at (m, b->end)) / 2, y + STRIP / 2.0, 11,
                  SVG_MIDDLE, "#333333", "%d", k);
}

static void draw_param (const struct map *m, const struct layout_entry *e, double y)
{
    svg_begin (m->svg, "%s: [%" N ", %" N ")", m->b->name[e->param], e->start, e->end);
    draw_box (m, e->start, e->end, y, param_colors[e->param % NUM_PARAM_COLORS], NULL);
    svg_end (m->svg);
}

static void draw_owners (const struct map *m, const struct layout_buffer *buffer, int k,
                         double y)
{
    int64_t shard = layout_shard (m->b->layout, buffer, k), start = buffer->bucket[k].start;

    for (int rank = 0; rank < buffer->shards; rank++, start += shard) {
        svg_begin (m->svg, "rank %d owns [%" N ", %" N ") of bucket %d", rank, start,
                   start + shard, k);
        draw_box (m, start, start + shard, y, rank_colors[rank % NUM_RANK_COLORS], NULL);
        svg_end (m->svg);
        if (m->scale * (double)shard > 18)
            svg_text (m->svg, at (m, start) + m->scale * (double)shard / 2, y + STRIP / 2.0,
                      10, SVG_MIDDLE, "#333333", "%d", rank);
    }
}

static void draw_buffer (const struct map *m, int i, double y)
{
    const struct layout_buffer *buffer = &m->b->layout->buffer[i];

    svg_text (m->svg, MARGIN, y + TITLE / 2.0, 13, SVG_START, "#000000",
              "buffer %d: %s, %s parameters, %s gradients, %" N " elements, %d bucket%s%s", i,
              buffer->expert ? "expert" : "dense", mg_dtype_name (buffer->param_dtype),
              mg_dtype_name (buffer->grad_dtype), buffer->numel, buffer->num_buckets,
              buffer->num_buckets == 1 ? "" : "s",
              m->b->sharded ? "; buckets, parameters, owners" : "; buckets, parameters");
    y += TITLE;
    for (int k = 0; k < buffer->num_buckets; k++)
        draw_bucket (m, buffer, k, y);
    y += STRIP + GAP;
    for (size_t e = 0; e < buffer->num_entries; e++)
        draw_param (m, &buffer->entry[e], y);
    y += STRIP + GAP;
    for (int k = 0; m->b->sharded && k < buffer->num_buckets; k++)
        draw_owners (m, buffer, k, y);
}

int plan_buffers_draw (const struct plan_buffers *b, const char *path,
                       struct mg_error *err)
{
    const struct layout *l = b->layout;
    struct map m = { .b = b };
    int64_t longest = 1;
    char title[160];

    for (int i = 0; i < l->num_buffers; i++)
        longest = l->buffer[i].numel > longest ? l->buffer[i].numel : longest;
    m.scale = (WIDTH - 2.0 * MARGIN) / (double)longest;
    snprintf (title, sizeof (title), "Buffers of pipeline rank %d, dp %d: %zu parameters",
              b->pp_rank, b->dp, b->n);
    m.svg = svg_create (path, WIDTH, HEAD + BLOCK * (double)l->num_buffers, title, err);
    if (!m.svg)
        return -1;
    svg_text (m.svg, MARGIN, HEAD / 2.0, 15, SVG_START, "#000000", "%s", title);
    for (int i = 0; i < l->num_buffers; i++)
        draw_buffer (&m, i, HEAD + BLOCK * (double)i);
    return svg_close (m.svg, err);
}
