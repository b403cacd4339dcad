/* token_table - one block of bytes, and a hash table with open addressing */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "libcore/text/token_table.h"

int token_table_create (struct token_table *table, int32_t num_ids, struct mg_error *err)
{
    size_t size = 16;

    while (size < 2 * (size_t)num_ids)
        size *= 2;
    table->num_ids = num_ids;
    table->mask = size - 1;
    table->spans = calloc ((size_t)num_ids + 1, sizeof (*table->spans));
    table->rows = malloc (size * sizeof (*table->rows));
    if (!table->spans || !table->rows
        || text_buffer_reserve (&table->bytes, 1, NULL) < 0) {
        token_table_clear (table);
        return mg_error_set (err, ENOMEM, "no memory for %d tokens", num_ids);
    }
    memset (table->rows, -1, size * sizeof (*table->rows));
    return 0;
}

void token_table_clear (struct token_table *table)
{
    free (table->spans);
    free (table->rows);
    text_buffer_clear (&table->bytes);
    memset (table, 0, sizeof (*table));
}

int token_table_set (struct token_table *table, int32_t id, const char *bytes, size_t size,
                     struct mg_error *err)
{
    table->spans[id] = (struct token_span){ table->bytes.size, size };
    return text_buffer_append (&table->bytes, bytes, size, err);
}

static size_t find_row (const struct token_table *table, const char *bytes, size_t size)
{
    size_t at = XXH3_64bits (bytes, size) & table->mask;

    while (table->rows[at] >= 0) {
        const struct token_span *span = &table->spans[table->rows[at]];

        if (span->size == size && memcmp (table->bytes.data + span->at, bytes, size) == 0)
            break;
        at = (at + 1) & table->mask;
    }
    return at;
}

void token_table_index (struct token_table *table, int32_t id)
{
    const struct token_span *span = &table->spans[id];
    size_t at = find_row (table, table->bytes.data + span->at, span->size);

    if (table->rows[at] < 0)
        table->rows[at] = id;
}

int32_t token_table_find (const struct token_table *table, const char *bytes, size_t size)
{
    return table->rows[find_row (table, bytes, size)];
}

const char *token_table_get (const struct token_table *table, int32_t id, size_t *size)
{
    *size = table->spans[id].size;
    return table->bytes.data + table->spans[id].at;
}
