/* utf8 - characters to bytes and back */

#include <string.h>

#include "libcore/text/utf8.h"

size_t utf8_size (const char *text, size_t left)
{
    const unsigned char *p = (const unsigned char *)text;
    size_t n = p[0] < 0x80 ? 1 : p[0] < 0xc2 ? 0 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3
               : p[0] < 0xf5 ? 4 : 0;

    if (n > left)
        return 0;
    for (size_t i = 1; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    }
    if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f)
        || (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f))
        return 0;
    return n;
}

size_t utf8_find_stray (const char *text, size_t size, size_t at)
{
    while (at < size) {
        uint64_t eight;
        size_t n;

        if (size - at >= sizeof (eight)) {
            memcpy (&eight, text + at, sizeof (eight));
            if (!(eight & UINT64_C (0x8080808080808080))) {
                at += sizeof (eight);
                continue;
            }
        }
        n = utf8_size (text + at, size - at);
        if (n == 0)
            break;
        at += n;
    }
    return at;
}

uint32_t utf8_decode (const char *text, size_t *size)
{
    const unsigned char *p = (const unsigned char *)text;

    if (p[0] < 0x80) {
        *size = 1;
        return p[0];
    }
    if (p[0] < 0xe0) {
        *size = 2;
        return (p[0] & 0x1fu) << 6 | (p[1] & 0x3f);
    }
    if (p[0] < 0xf0) {
        *size = 3;
        return (p[0] & 0xfu) << 12 | (p[1] & 0x3fu) << 6 | (p[2] & 0x3f);
    }
    *size = 4;
    return (p[0] & 7u) << 18 | (p[1] & 0x3fu) << 12 | (p[2] & 0x3fu) << 6 | (p[3] & 0x3f);
}

size_t utf8_previous (const char *text, size_t at)
{
    do {
        at--;
    } while (at > 0 && ((unsigned char)text[at] & 0xc0) == 0x80);
    return at;
}

size_t utf8_encode (uint32_t c, char *to)
{
    if (c < 0x80) {
        to[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        to[0] = (char)(0xc0 | c >> 6);
        to[1] = (char)(0x80 | (c & 0x3f));
        return 2;
    }
    if (c < 0x10000) {
        to[0] = (char)(0xe0 | c >> 12);
        to[1] = (char)(0x80 | (c >> 6 & 0x3f));
        to[2] = (char)(0x80 | (c & 0x3f));
        return 3;
    }
    to[0] = (char)(0xf0 | c >> 18);
    to[1] = (char)(0x80 | (c >> 12 & 0x3f));
    to[2] = (char)(0x80 | (c >> 6 & 0x3f));
    to[3] = (char)(0x80 | (c & 0x3f));
    return 4;
}

bool utf8_is_space (uint32_t c)
{
    return (c >= 9 && c <= 13) || c == 0x20 || c == 0x85 || c == 0xa0 || c == 0x1680
           || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f
           || c == 0x205f || c == 0x3000;
}

int utf8_stray_at (const char *text, size_t left)
{
    const unsigned char *p = (const unsigned char *)text;

    if (left < UTF8_STRAY_SIZE || p[0] != 0xed || (p[1] != 0xb2 && p[1] != 0xb3))
        return -1;
    return (p[1] & 3) << 6 | (p[2] & 0x3f);
}

int utf8_write_strays (struct text_buffer *out, const char *text, size_t size,
                       struct mg_error *err)
{
    out->size = 0;
    for (size_t done = 0; done < size;) {
        size_t at = utf8_find_stray (text, size, done);
        char surrogate[UTF8_MAX];
        size_t n;

        if (text_buffer_append (out, text + done, at - done, err) < 0)
            return -1;
        if (at < size) {
            n = utf8_encode (UTF8_STRAY | (unsigned char)text[at], surrogate);
            if (text_buffer_append (out, surrogate, n, err) < 0)
                return -1;
        }
        done = at + 1;
    }
    return 0;
}

int utf8_read_strays (struct text_buffer *out, const char *text, size_t size,
                      struct mg_error *err)
{
    out->size = 0;
    if (text_buffer_reserve (out, size, err) < 0)
        return -1;
    for (size_t at = 0; at < size;) {
        int stray = utf8_stray_at (text + at, size - at);

        out->data[out->size++] = stray >= 0 ? (char)stray : text[at];
        at += stray >= 0 ? UTF8_STRAY_SIZE : 1;
    }
    return 0;
}

int utf8_append_valid (struct text_buffer *to, const char *text, size_t size,
                       struct mg_error *err)
{
    size_t at = 0;

    while (at < size) {
        size_t stray = utf8_find_stray (text, size, at);

        if (stray > at && text_buffer_append (to, text + at, stray - at, err) < 0)
            return -1;
        if (stray < size && text_buffer_append (to, "\xef\xbf\xbd", 3, err) < 0)
            return -1;
        at = stray + 1;
    }
    return 0;
}
