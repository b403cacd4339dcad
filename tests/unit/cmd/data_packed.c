/* data_packed.c - compressed files read as their text: streams one behind the other, damage, ends;
 * kinds that are refused */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/data/input.h"
#include "cmd/data/packed.h"
#include "config.h"
#include "tests/tap/tap.h"

#if HAVE_ZLIB
#include <zlib.h>
#endif
#if HAVE_BZIP2
#include <bzlib.h>
#endif
#if HAVE_LZMA
#include <lzma.h>
#endif
#if HAVE_ZSTD
#include <zstd.h>
#endif

enum { LONG = 3 << 20, ROOM = LONG + (1 << 16) };

static char path[200];
static unsigned char packed[2 * ROOM];

static void write_file (const void *data, size_t size)
{
    FILE *f = fopen (path, "w");

    if (!f || fwrite (data, 1, size, f) != size || fclose (f) != 0)
        bail_out ("cannot write %s", path);
}

/* Read the file; the bytes, which the caller frees, or NULL and a text. */
static char *read_all (size_t *size, struct mg_error *err)
{
    struct data_packed *in = data_packed_open (path, err);
    char *text = malloc (2 * LONG);

    *size = in ? fread (text, 1, 2 * LONG, data_packed_stream (in)) : 0;
    if (!in || data_packed_check (in, err) < 0) {
        free (text);
        text = NULL;
    }
    data_packed_close (in);
    return text;
}

static void is_text (const char *want, size_t size, const char *what)
{
    struct mg_error err = { .text = "" };
    size_t n;
    char *have = read_all (&n, &err);

    ok (have && n == size && memcmp (have, want, n) == 0, "%s: %zu bytes, want %zu %s", what, n,
        size, err.text);
    free (have);
}

static void is_refused (int errnum, const char *want, const char *what)
{
    struct mg_error err = { .text = "" };
    size_t n;
    char *have;

    errno = 0;
    have = read_all (&n, &err);
    ok (!have && errno == errnum && strstr (err.text, want) && !strchr (err.text, '\n'),
        "%s: %s", what, err.text);
    free (have);
}

/* Each compresses into 'packed' at 'to'; the number of bytes. */
typedef size_t pack_f (const char *text, size_t size, unsigned char *to);

#if HAVE_ZLIB
static size_t pack_gzip (const char *text, size_t size, unsigned char *to)
{
    z_stream z = { .next_in = (Bytef *)text, .avail_in = (uInt)size, .next_out = to,
                   .avail_out = ROOM };

    deflateInit2 (&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
    deflate (&z, Z_FINISH);
    deflateEnd (&z);
    return ROOM - z.avail_out;
}
#endif

#if HAVE_BZIP2
static size_t pack_bzip2 (const char *text, size_t size, unsigned char *to)
{
    unsigned n = ROOM;

    BZ2_bzBuffToBuffCompress ((char *)to, &n, (char *)text, (unsigned)size, 1, 0, 0);
    return n;
}
#endif

#if HAVE_LZMA
static size_t pack_xz (const char *text, size_t size, unsigned char *to)
{
    size_t n = 0;

    lzma_easy_buffer_encode (1, LZMA_CHECK_CRC32, NULL, (const uint8_t *)text, size, to, &n, ROOM);
    return n;
}
#endif

#if HAVE_ZSTD
static size_t pack_zstd (const char *text, size_t size, unsigned char *to)
{
    ZSTD_CCtx *context = ZSTD_createCCtx ();
    size_t n;

    ZSTD_CCtx_setParameter (context, ZSTD_c_checksumFlag, 1);
    n = ZSTD_compress2 (context, to, ROOM, text, size);
    ZSTD_freeCCtx (context);
    return n;
}
#endif

static const struct {
    const char *name;
    pack_f *pack;
} packers[] = {
#if HAVE_ZLIB
    { "gzip", pack_gzip },
#endif
#if HAVE_BZIP2
    { "bzip2", pack_bzip2 },
#endif
#if HAVE_LZMA
    { "xz", pack_xz },
#endif
#if HAVE_ZSTD
    { "zstd", pack_zstd },
#endif
    { NULL, NULL },
};

static void test_kind (const char *name, pack_f *pack, const char *text)
{
    size_t n = pack ("ab\ncd\n", 6, packed), more;

    write_file (packed, n);
    is_text ("ab\ncd\n", 6, name);
    memset (packed + n, 0, 8);
    more = pack ("ef\n", 3, packed + n + 8);
    write_file (packed, n + 8 + more);
    is_text ("ab\ncd\nef\n", 9, "two streams with zeros between");
    write_file (packed, n + 8 + more - 3);
    is_refused (EINVAL, "end too early", "a file that is cut");
    memset (packed + n, 'g', 64);
    write_file (packed, n + 64);
    is_refused (EINVAL, "damaged", "something else behind a stream");
    n = pack ("", 0, packed);
    write_file (packed, n);
    is_text ("", 0, "nothing");
    n = pack (text, LONG, packed);
    write_file (packed, n);
    is_text (text, LONG, "megabytes");
    memset (packed + n / 2, 0xa5, 4);
    write_file (packed, n);
    is_refused (EINVAL, "damaged", "bytes that were changed");
}

/* Text that compresses a little. */
static char *make_text (void)
{
    char *text = malloc (LONG);
    unsigned state = 1;

    for (size_t i = 0; i < LONG; i++) {
        state = state * 1664525 + 1013904223;
        text[i] = i % 61 == 60 ? '\n' : (char)('a' + (state >> 24) % 7);
    }
    return text;
}

static void test_refused (void)
{
    static const struct {
        const char *data;
        size_t size;
        const char *want;
    } cases[] = {
        { "PK\3\4rest", 8, "is a file of ZIP" },
        { "\x1f\x9drest", 6, "is a file of compress" },
        { "\x04\x22\x4d\x18xx", 6, "is a file of lz4" },
        { "PAR1\x15xx", 7, "is a file of Parquet" },
        { "7z\xbc\xaf\x27\x1c", 6, "is a file of 7-Zip" },
    };
    static char tar[1024] = "a.txt";

    for (size_t i = 0; i < sizeof (cases) / sizeof (cases[0]); i++) {
        write_file (cases[i].data, cases[i].size);
        is_refused (ENOTSUP, cases[i].want, "refused");
    }
    memcpy (tar + 257, "ustar", 5);
    write_file (tar, sizeof (tar));
    is_refused (ENOTSUP, "is a tar archive", "refused");
}

static void test_plain (const char *text)
{
    write_file (text, LONG);
    is_text (text, LONG, "a plain text");
    write_file ("", 0);
    is_text ("", 0, "an empty file");
    write_file ("PK", 2);
    is_text ("PK", 2, "the begin of a begin");
    unlink (path);
    is_refused (ENOENT, "cannot open", "no file");
}

static void test_names (void)
{
    static const struct {
        const char *name;
        enum input_format format;
    } cases[] = {
        { "a.jsonl", INPUT_JSONL },     { "a.JSONL", INPUT_JSONL },  { "a.ndjson", INPUT_JSONL },
        { "a.json", INPUT_JSONL },      { "a.jsonl.gz", INPUT_JSONL },
        { "a.Json.ZST", INPUT_JSONL },
        { "a.jsonlines", INPUT_JSONL }, { "a.txt", INPUT_TEXT },     { "a.txt.gz", INPUT_TEXT },
        { "jsonl", INPUT_TEXT },        { "a.jsonl.x", INPUT_TEXT }, { ".gz", INPUT_TEXT },
    };

    for (size_t i = 0; i < sizeof (cases) / sizeof (cases[0]); i++)
        is_int (input_format_by_name (cases[i].name), cases[i].format, "%s", cases[i].name);
}

static void test_look (void)
{
    write_file ("{\"text\": NaN}\nmore", 18);
    ok (input_looks_like_json (path), "a line of JSON");
    write_file ("{text}\n", 7);
    ok (!input_looks_like_json (path), "a line in braces");
    ok (!input_is_compressed (path), "a file that is not compressed");
}

int main (void)
{
    char *text = make_text ();

    snprintf (path, sizeof (path), "%s/megatron-packed.XXXXXX",
              getenv ("TMPDIR") ? getenv ("TMPDIR") : "/tmp");
    close (mkstemp (path));
    for (int i = 0; packers[i].name; i++)
        test_kind (packers[i].name, packers[i].pack, text);
    test_refused ();
    test_look ();
    test_names ();
    test_plain (text);
    free (text);
    return done_testing ();
}
