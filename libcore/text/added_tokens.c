/* added_tokens - a tree of the bytes of the tokens */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/text/added_tokens.h"
#include "libcore/text/utf8.h"

/* A byte of one or more tokens. Node 0 is the root; so 0 as a link means none. */
struct node {
    uint32_t child, sibling;
    int32_t token; /* that ends here, -1: none */
    unsigned char byte;
};

struct added_tokens {
    struct node *nodes;
    size_t num_nodes, max_nodes;
    struct added_token *tokens;
    size_t num_tokens;
    uint32_t first[256]; /* children of the root by their byte */
    struct regex *word;  /* a word character */
};

struct added_tokens *added_tokens_create (struct mg_error *err)
{
    static const char word[] = "[" REGEX_RUST_WORD "]";
    struct added_tokens *t = calloc (1, sizeof (*t));

    if (!t) {
        mg_error_set (err, ENOMEM, "out of memory");
        return NULL;
    }
    if (!(t->word = regex_create (word, sizeof (word) - 1, err))) {
        added_tokens_destroy (t);
        return NULL;
    }
    t->num_nodes = 1;
    return t;
}

void added_tokens_destroy (struct added_tokens *tokens)
{
    if (tokens) {
        int saved_errno = errno;

        free (tokens->nodes);
        free (tokens->tokens);
        regex_destroy (tokens->word);
        free (tokens);
        errno = saved_errno;
    }
}

static int reserve (struct added_tokens *t, size_t nodes, struct mg_error *err)
{
    size_t wanted = t->max_nodes ? t->max_nodes : 256;
    struct added_token *tokens;
    struct node *more;

    while (wanted - t->num_nodes < nodes)
        wanted *= 2;
    if (wanted > UINT32_MAX
        || !(tokens = reallocarray (t->tokens, t->num_tokens + 1, sizeof (*tokens))))
        return mg_error_set (err, ENOMEM, "no memory for added tokens");
    t->tokens = tokens;
    if (wanted == t->max_nodes)
        return 0;
    if (!(more = reallocarray (t->nodes, wanted, sizeof (*more))))
        return mg_error_set (err, ENOMEM, "no memory for added tokens");
    t->nodes = more;
    t->max_nodes = wanted;
    return 0;
}

/* The child of a node by its byte, 0: none. */
static uint32_t find_child (const struct added_tokens *t, uint32_t node, unsigned char byte)
{
    uint32_t child;

    if (node == 0)
        return t->first[byte];
    for (child = t->nodes[node].child; child && t->nodes[child].byte != byte;)
        child = t->nodes[child].sibling;
    return child;
}

int added_tokens_put (struct added_tokens *t, const char *text, size_t size,
                      const struct added_token *token, struct mg_error *err)
{
    uint32_t node = 0;

    if (reserve (t, size, err) < 0)
        return -1;
    for (size_t i = 0; i < size; i++) {
        unsigned char byte = (unsigned char)text[i];
        uint32_t child = find_child (t, node, byte);

        if (!child) {
            child = (uint32_t)t->num_nodes++;
            t->nodes[child] = (struct node){ .token = -1, .byte = byte };
            if (node == 0) {
                t->first[byte] = child;
            } else {
                t->nodes[child].sibling = t->nodes[node].child;
                t->nodes[node].child = child;
            }
        }
        node = child;
    }
    t->nodes[node].token = (int32_t)t->num_tokens;
    t->tokens[t->num_tokens++] = *token;
    return 0;
}

/* Bytes of the longest token at 'p', 0: none. */
static size_t match (const struct added_tokens *t, const char *p, size_t left,
                     const struct added_token **token)
{
    size_t longest = 0;
    uint32_t node = 0;

    for (size_t n = 0; n < left; n++) {
        node = find_child (t, node, (unsigned char)p[n]);
        if (!node)
            break;
        if (t->nodes[node].token >= 0) {
            *token = &t->tokens[t->nodes[node].token];
            longest = n + 1;
        }
    }
    return longest;
}

/* 1 if the character is a word character, 0 if not, -1 on failure. */
static int is_word (const struct added_tokens *t, struct regex_scratch *scratch,
                    const char *text, struct mg_error *err)
{
    struct regex_walk walk = { 0 };
    size_t n;

    utf8_decode (text, &n);
    return regex_next (t->word, scratch, text, n, &walk, err);
}

/* 1 if a word character is beside text[from..to), 0 if not, -1 on failure. */
static int beside_word (const struct added_tokens *t, struct regex_scratch *scratch,
                        const char *text, size_t size, size_t from, size_t to,
                        struct mg_error *err)
{
    int rc = 0;

    if (from > 0)
        rc = is_word (t, scratch, text + utf8_previous (text, from), err);
    if (rc == 0 && to < size)
        rc = is_word (t, scratch, text + to, err);
    return rc;
}

/* Extend the token text[from..to) by white space on both sides, as its flags say. */
static void widen (const struct added_token *token, const char *text, size_t size,
                   struct added_tokens_walk *walk)
{
    size_t n;

    while (token->lstrip && walk->from > walk->done) {
        size_t previous = utf8_previous (text, walk->from);

        if (!utf8_is_space (utf8_decode (text + previous, &n)))
            break;
        walk->from = previous;
    }
    while (token->rstrip && walk->to < size
           && utf8_is_space (utf8_decode (text + walk->to, &n)))
        walk->to += n;
}

/* Two tokens of white space may claim the same characters: with "rstrip" the first one extends over
 * the second one.  In the library the second one counts nevertheless, but with "lstrip" it is lost.
 */
int added_tokens_next (const struct added_tokens *t, struct regex_scratch *scratch,
                       const char *text, size_t size, struct added_tokens_walk *walk,
                       struct mg_error *err)
{
    const struct added_token *token = NULL;

    while (t->num_tokens > 0 && walk->at < size) {
        size_t at = walk->at, n;
        int rc = 0;

        if (!t->first[(unsigned char)text[at]]
            || !(n = match (t, text + at, size - at, &token))) {
            walk->at++;
            continue;
        }
        walk->at = at + n;
        if (token->single_word)
            rc = beside_word (t, scratch, text, size, at, at + n, err);
        if (rc < 0)
            return -1;
        if (rc > 0 || (token->lstrip && walk->at <= walk->done))
            continue;
        walk->from = at;
        walk->to = walk->at;
        widen (token, text, size, walk);
        walk->id = token->id;
        walk->done = walk->to;
        return 1;
    }
    walk->at = size;
    return 0;
}
