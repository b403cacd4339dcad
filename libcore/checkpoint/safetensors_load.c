/* safetensors_load.c - fill pieces of tensors from a safetensors file
 *
 * Everything that can be wrong with names, shapes and types is found before the first byte is
 * copied.  Elements of other floating-point types are converted to float32.
 */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "libcore/base/half.h"
#include "libcore/checkpoint/box.h"
#include "libcore/checkpoint/safetensors.h"
#include "libcore/checkpoint/safetensors_format.h"

enum {
    NAMED_MAX = 3,       /* missing tensors that a message names */
    BUF_ELEMENTS = 4096, /* that are converted at once */
};

void safetensors_widen (float *dst, const void *data, int64_t n, enum mg_dtype dtype)
{
    const char *src = data;
    uint16_t half;
    double real;

    switch (dtype) {
    case MG_FLOAT64:
        for (int64_t i = 0; i < n; i++) {
            memcpy (&real, src + (size_t)i * sizeof (real), sizeof (real));
            dst[i] = (float)real;
        }
        break;
    case MG_BFLOAT16:
        for (int64_t i = 0; i < n; i++) {
            memcpy (&half, src + (size_t)i * sizeof (half), sizeof (half));
            dst[i] = half_from_bf16 (half);
        }
        break;
    case MG_FLOAT16:
        for (int64_t i = 0; i < n; i++) {
            memcpy (&half, src + (size_t)i * sizeof (half), sizeof (half));
            dst[i] = half_from_fp16 (half);
        }
        break;
    default:
        memcpy (dst, src, (size_t)n * sizeof (*dst));
    }
}

static int fill (const struct piece *p, const struct safetensors_entry *e, struct mg_error *err)
{
    const size_t size = mg_dtype_size (e->dtype);
    const struct box all = box_of_global (p), part = box_of_inside (p);
    const char *src = e->data;
    float buf[BUF_ELEMENTS];

    if (p->dtype == e->dtype)
        return box_store_piece (p, part, e->data, all, err);
    for (int64_t row = part.row; row < part.row + part.rows; row++) {
        struct box some = { row, 1, part.col, 0 };

        for (; some.col < part.col + part.cols; some.col += some.cols) {
            some.cols = part.col + part.cols - some.col;
            if (some.cols > BUF_ELEMENTS)
                some.cols = BUF_ELEMENTS;
            safetensors_widen (buf, src + (size_t)(row * all.cols + some.col) * size, some.cols,
                               e->dtype);
            if (box_store_piece (p, some, buf, some, err) < 0)
                return -1;
        }
    }
    return 0;
}

bool safetensors_can_widen (enum mg_dtype dtype)
{
    return dtype == MG_FLOAT32 || dtype == MG_FLOAT64 || dtype == MG_BFLOAT16
           || dtype == MG_FLOAT16;
}

static bool converts (enum mg_dtype from, enum mg_dtype to)
{
    return from == to || (to == MG_FLOAT32 && safetensors_can_widen (from));
}

static int check_entry (const struct safetensors *st, const struct piece *p,
                        const struct safetensors_entry *e, struct mg_error *err)
{
    char name[BOX_NAME_MAX], have[BOX_TEXT_MAX], want[BOX_TEXT_MAX];

    if (e->ndims != p->ndims
        || memcmp (e->shape, p->global, sizeof (p->global[0]) * (size_t)p->ndims) != 0)
        return mg_error_set (err, EINVAL, "%s: tensor %s has shape %s, want %s",
                             safetensors_path (st), box_name_text (name, p->name),
                             box_shape_text (have, e->shape, e->ndims),
                             box_shape_text (want, p->global, p->ndims));
    if (!converts (e->dtype, p->dtype))
        return mg_error_set (err, EINVAL, "%s: tensor %s has data type %s, want %s%s",
                             safetensors_path (st), box_name_text (name, p->name),
                             mg_dtype_name (e->dtype), mg_dtype_name (p->dtype),
                             p->dtype == MG_FLOAT32 ? " or what converts to it" : "");
    return 0;
}

static int report_missing (const struct safetensors *st, const char *names,
                           size_t missing, size_t n, struct mg_error *err)
{
    const char *path = safetensors_path (st);

    if (safetensors_find (st, "wte.weight") || safetensors_find (st, "transformer.wte.weight"))
        return mg_error_set (err, ENOENT, "%s: its tensors have Hugging Face's names of a GPT-2; "
                             "convert it: megatron checkpoint convert %s --num-attention-heads N "
                             "--output FILE", path, path);
    return mg_error_set (err, ENOENT, "%s: %zu of %zu tensors are not in it: %s%s",
                         path, missing, n, names,
                         missing > NAMED_MAX ? ", ..." : "");
}

/* Everything that can be wrong is found before the first byte is copied. */
static int check_all (const struct safetensors *st, const struct piece *pieces, size_t n,
                      struct mg_error *err)
{
    char names[NAMED_MAX * (BOX_NAME_MAX + 2)] = "", name[BOX_NAME_MAX];
    size_t missing = 0;

    for (size_t i = 0; i < n; i++) {
        const struct piece *p = &pieces[i];
        const struct safetensors_entry *e;

        if (box_check_piece (p, err) < 0)
            return -1;
        e = safetensors_find (st, p->name);
        if (!e && errno == ENOTSUP)
            return mg_error_set (err, ENOTSUP, "%s: tensor %s: data type %s, or its "
                                 "number of dimensions, is not supported",
                                 safetensors_path (st), box_name_text (name, p->name),
                                 box_name_text (names, safetensors_type (st, p->name)));
        if (!e && !p->optional && missing++ < NAMED_MAX) {
            strcat (names, missing > 1 ? ", " : "");
            strcat (names, box_name_text (name, p->name));
        }
        if (e && check_entry (st, p, e, err) < 0)
            return -1;
    }
    return missing ? report_missing (st, names, missing, n, err) : 0;
}

int safetensors_load (const struct safetensors *st, const struct piece *pieces, size_t n,
                      struct mg_error *err)
{
    if (check_all (st, pieces, n, err) < 0)
        return -1;
    for (size_t i = 0; i < n; i++) {
        const struct safetensors_entry *e = safetensors_find (st, pieces[i].name);

        if (e && fill (&pieces[i], e, err) < 0)
            return -1;
    }
    return 0;
}
