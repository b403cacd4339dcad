/* keys - the keys that clients of a server show. */
#ifndef CMD_SERVE_KEYS_H
#define CMD_SERVE_KEYS_H

#include <stdbool.h>
#include <stddef.h>

#include "megatron/error.h"

enum { KEYS_FILE_MAX = 1 << 16, KEYS_SIZE_MAX = 256 };

struct keys {
    char *text;        /* memory of the keys */
    const char **key;  /* [count] */
    size_t *size;      /* [count] */
    size_t count;
};

/* Read a file with a key on each line, of 1 to KEYS_SIZE_MAX visible characters of ASCII.  Empty
 * lines do not matter.  -1 and a text that names the line if a key is wrong or there is none, or
 * with an errno of open(), EFBIG or ENOMEM; 'k' is then empty.
 */
int keys_read (struct keys *k, const char *path, struct mg_error *err);
void keys_clear (struct keys *k);

/* true if 'header', the value of an Authorization header or NULL, shows a key ("Bearer KEY").  The
 * time does not depend on the characters of a wrong key.
 */
bool keys_allow (const struct keys *k, const char *header);

#endif /* CMD_SERVE_KEYS_H */
