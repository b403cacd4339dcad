/* template_arena - memory that is freed at once: nodes of a template, values of a rendering */
#ifndef LIBCORE_SERVE_TEMPLATE_ARENA_H
#define LIBCORE_SERVE_TEMPLATE_ARENA_H

#include <stddef.h>

#include "megatron/error.h"

struct tpl_arena_block;

/* An arena with blocks NULL and a limit is empty. */
struct tpl_arena {
    struct tpl_arena_block *blocks;
    size_t limit; /* bytes that may still be taken */
};

/* Zeroed memory for any type.  NULL and a text: E2BIG beyond the limit, ENOMEM. */
void *tpl_arena_take (struct tpl_arena *a, size_t size, struct mg_error *err);

void tpl_arena_clear (struct tpl_arena *a);

#endif /* LIBCORE_SERVE_TEMPLATE_ARENA_H */
