/* template_arena.c - blocks that grow by what is asked for */

#include <errno.h>
#include <stdlib.h>

#include "libcore/serve/template_arena.h"

enum { BLOCK = 16 << 10, ALIGN = 16 };

struct tpl_arena_block {
    struct tpl_arena_block *next;
    size_t used, size;
    _Alignas (ALIGN) char data[];
};

static struct tpl_arena_block *add_block (struct tpl_arena *a, size_t size)
{
    size_t room = size > BLOCK ? size : BLOCK;
    struct tpl_arena_block *b = calloc (1, sizeof (*b) + room);

    if (!b)
        return NULL;
    b->size = room;
    b->next = a->blocks;
    a->blocks = b;
    return b;
}

void *tpl_arena_take (struct tpl_arena *a, size_t size, struct mg_error *err)
{
    struct tpl_arena_block *b = a->blocks;
    void *to;

    if (size > a->limit || a->limit - size < ALIGN) {
        mg_error_set (err, E2BIG, "the values of the template need too much memory");
        return NULL;
    }
    size = (size + ALIGN - 1) / ALIGN * ALIGN;
    if (!b || b->size - b->used < size)
        b = add_block (a, size);
    if (!b) {
        mg_error_set (err, ENOMEM, "no memory for a template");
        return NULL;
    }
    to = b->data + b->used;
    b->used += size;
    a->limit -= size;
    return to;
}

void tpl_arena_clear (struct tpl_arena *a)
{
    while (a->blocks) {
        struct tpl_arena_block *b = a->blocks;

        a->blocks = b->next;
        free (b);
    }
}
