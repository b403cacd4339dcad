/* layout.c - lay parameters out in reverse registration order */

#include <errno.h>
#include <stdlib.h>

#include "libcore/optim/layout.h"

void layout_destroy (struct layout *layout)
{
    int saved_errno = errno;

    if (layout) {
        free (layout->entry);
        free (layout->bucket);
        free (layout);
    }
    errno = saved_errno;
}

struct layout *layout_create (const struct param *params, size_t n, int64_t bucket_size,
                              struct mg_error *err)
{
    struct layout *l;
    int64_t bucket_start = 0;

    if (bucket_size < 0) {
        mg_error_set (err, EINVAL, "layout: bucket size %lld, want at least 0",
                      (long long)bucket_size);
        return NULL;
    }
    if (!(l = calloc (1, sizeof (*l))) || !(l->entry = calloc (n + 1, sizeof (*l->entry)))
        || !(l->bucket = calloc (n + 1, sizeof (*l->bucket)))) {
        mg_error_set (err, ENOMEM, "layout: out of memory");
        layout_destroy (l);
        return NULL;
    }
    l->num_entries = n;
    for (size_t i = 0; i < n; i++) {
        size_t p = n - 1 - i;
        int64_t end = l->numel + params[p].numel;

        l->entry[i] = (struct layout_entry){ p, l->numel, end, l->num_buckets };
        l->numel = end;
        if (i + 1 == n || (bucket_size > 0 && end - bucket_start >= bucket_size)) {
            l->bucket[l->num_buckets++] = (struct layout_bucket){ bucket_start, end };
            bucket_start = end;
        }
    }
    return l;
}
