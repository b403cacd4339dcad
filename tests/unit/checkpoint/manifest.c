/* manifest.c - encoding, decoding, and everything that a reader must not believe */

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>
#include <xxhash.h>

#include "libcore/checkpoint/manifest.h"
#include "libcore/checkpoint/manifest_format.h"
#include "tests/tap/tap.h"
#include "tests/unit/checkpoint/scratch.h"

static const char good[] =
    "{\"format\":\"slurm-megatron checkpoint\",\"version\":1,\"iteration\":100,"
    "\"save\":\"0123456789abcdef\",\"slab_bytes\":32,"
    "\"values\":{\"samples\":1600,\"scale\":65536.0,\"name\":\"x\"},"
    "\"shards\":[{\"file\":\"shard_00000.bin\",\"size\":128},"
    "{\"file\":\"shard_00003.bin\",\"size\":152}],"
    "\"tensors\":[{\"name\":\"w\",\"dtype\":\"float32\",\"shape\":[6,4],\"parts\":["
    "{\"shard\":0,\"offset\":64,\"start\":[0,0],\"shape\":[4,4],"
    "\"checksums\":[\"0000000000000001\",\"0000000000000002\"]},"
    "{\"shard\":3,\"offset\":64,\"start\":[4,0],\"shape\":[2,4],"
    "\"checksums\":[\"ffffffffffffffff\"]}]},"
    "{\"name\":\"b\",\"dtype\":\"float64\",\"shape\":[3],\"parts\":["
    "{\"shard\":3,\"offset\":128,\"start\":[0],\"shape\":[3],"
    "\"checksums\":[\"00000000000000ff\"]}]}]";

/* 'body' with a right checksum at its end. */
static char *seal (const char *body, size_t n, size_t *len)
{
    char *text = malloc (n + MANIFEST_END + 1);

    memcpy (text, body, n);
    snprintf (text + n, MANIFEST_END + 1, MANIFEST_END_FORMAT,
              (uint64_t)XXH3_64bits (body, n));
    *len = n + MANIFEST_END;
    return text;
}

static void test_decode (void)
{
    struct mg_error err = { .text = "" };
    const struct roster_tensor *t;
    struct manifest *m;
    char *text, *again;
    size_t len, len2;

    text = seal (good, strlen (good), &len);
    m = manifest_decode (text, len, &err);
    if (!ok (m != NULL, "a good manifest is read %s", err.text))
        return;
    is_int (m->id.iteration, 100, "its iteration");
    is_str (m->id.save, "0123456789abcdef", "its save");
    is_int (m->slab_bytes, 32, "its slabs");
    is_int (m->num_shards, 2, "its shards");
    ok (manifest_shard (m, 3) && manifest_shard (m, 3)->size == 152, "shard 3");
    ok (manifest_shard (m, 0) && !manifest_shard (m, 1) && !manifest_shard (m, 4),
        "there is a shard 0, but no 1 or 4");
    t = roster_find (m->roster, "w");
    ok (t && t->dtype == MG_FLOAT32 && t->ndims == 2 && t->num_parts == 2, "tensor w");
    ok (t && t->parts[0].sums[1] == 2 && t->parts[1].sums[0] == UINT64_MAX
            && t->parts[1].rank == 3 && t->parts[1].offset == 64, "its parts");
    t = roster_find (m->roster, "b");
    ok (t && t->ndims == 1 && t->num_parts == 1 && t->parts[0].num_sums == 1, "tensor b");
    ok (!roster_find (m->roster, "c"), "no tensor c");
    again = manifest_encode (m, &len2, &err);
    ok (again && len2 == len && memcmp (again, text, len) == 0,
        "encoded again, it is the same byte for byte");
    free (again);
    free (text);
    manifest_destroy (m);
    manifest_destroy (NULL);
}

/* 'good' with the first 'from' replaced by 'to'. */
static char *edit (const char *from, const char *to, size_t *len)
{
    const char *at = strstr (good, from);
    char body[2 * sizeof (good)];

    if (!at)
        bail_out ("no %s in the good manifest", from);
    snprintf (body, sizeof (body), "%.*s%s%s", (int)(at - good), good, to,
              at + strlen (from));
    return seal (body, strlen (body), len);
}

/* A good manifest, one text in it replaced by another. */
static const struct {
    const char *from, *to;
    const char *text;
    int errnum; /* 0: EBADMSG */
} refusals[] = {
    { "slurm-megatron", "other", "not the manifest of a checkpoint", 0 },
    { "\"version\":1", "\"version\":2", "format version 2, this program reads 1",
      ENOTSUP },
    { "\"version\":1", "\"version\":\"1\"", "no format version", 0 },
    { "{\"samples\"", "{\"a\":1,\"a\":2,\"samples\"", "duplicate", 0 },
    { ":100,", ":-1,", "iteration, save or slab_bytes makes no sense", 0 },
    { ":100,", ":1e2,", "iteration, save or slab_bytes makes no sense", 0 },
    { "0123456789abcdef", "0123456789abcde", "iteration, save or slab_bytes", 0 },
    { "0123456789abcdef", "0123456789ABCDEF", "iteration, save or slab_bytes", 0 },
    { "bytes\":32", "bytes\":0", "iteration, save or slab_bytes", 0 },
    { "bytes\":32", "bytes\":1073741825", "iteration, save or slab_bytes", 0 },
    { "bytes\":32", "bytes\":64", "w: a part has not 1 checksums", 0 },
    { "\"values\":{", "\"valuez\":{", "values are not an object", 0 },
    { "\"shards\":[", "\"shardz\":[", "shards are not a list", 0 },
    { "shard_00003.bin", "shard_3.bin", "shard 1 makes no sense", 0 },
    { "shard_00003.bin", "../../etc/x", "shard 1 makes no sense", 0 },
    { "shard_00003.bin", "shard_00000.bin", "shard 1 makes no sense", 0 },
    { "\"size\":152", "\"size\":63", "shard 1 makes no sense", 0 },
    { "\"size\":152", "\"size\":151", "b: a part reaches beyond its shard", 0 },
    { "\"size\":152", "\"size\":9223372036854775808", "too big integer", 0 },
    { "\"tensors\":[", "\"tensorz\":[", "tensors are not a list", 0 },
    { "\"name\":\"w\"", "\"name\":\"\"", "a tensor has no name", 0 },
    { "\"name\":\"w\"", "\"nane\":\"w\"", "a tensor has no name", 0 },
    { "\"name\":\"b\"", "\"name\":\"w\"", "w: listed twice", 0 },
    { "float32", "float31", "w: data type, shape or parts make no sense", 0 },
    { "\"shape\":[6,4]", "\"shape\":[6,4,1]", "w: data type, shape or parts", 0 },
    { "\"shape\":[6,4]", "\"shape\":[]", "w: data type, shape or parts", 0 },
    { "\"shape\":[6,4]", "\"shape\":[6,-4]", "w: data type, shape or parts", 0 },
    { "\"shape\":[6,4]", "\"shape\":[6,4.0]", "w: data type, shape or parts", 0 },
    { "\"shape\":[6,4]", "\"shape\":[4611686018427387904,4]", "w: data type", 0 },
    { "\"shape\":[6,4]", "\"shape\":[7,4]", "tensor w: 4 of its 28 elements", 0 },
    { "\"shape\":[6,4]", "\"shape\":[5,4]", "w: a part is not inside the tensor", 0 },
    { "\"start\":[4,0]", "\"start\":[3,0]", "rank 0 and part [3:5, 0:4] of rank 3", 0 },
    { "\"start\":[4,0]", "\"start\":[4]", "w: a part is not inside the tensor", 0 },
    { "\"start\":[4,0]", "\"start\":[9223372036854775807,0]", "w: a part is not", 0 },
    { "\"shape\":[2,4]", "\"shape\":[0,4]", "w: a part is not inside the tensor", 0 },
    { "\"shard\":3", "\"shard\":2", "w: a part is in no listed shard", 0 },
    { "\"shard\":3", "\"shard\":4294967299", "w: a part is in no listed shard", 0 },
    { "\"offset\":64", "\"offset\":63", "w: a part reaches beyond its shard", 0 },
    { "\"offset\":64", "\"offset\":65", "w: a part reaches beyond its shard", 0 },
    { "\"offset\":64", "\"offset\":9223372036854775807", "w: a part reaches", 0 },
    { "\"0000000000000001\",", "", "w: a part has not 2 checksums", 0 },
    { "\"0000000000000001\"", "\"1\"", "w: a checksum is not 16", 0 },
    { "\"0000000000000001\"", "\"000000000000000g\"", "w: a checksum is not 16", 0 },
    { "\"0000000000000001\"", "1", "w: a checksum is not 16", 0 },
};

static void test_refuses (void)
{
    for (size_t i = 0; i < sizeof (refusals) / sizeof (refusals[0]); i++) {
        struct mg_error err = { .text = "" };
        struct manifest *m;
        size_t len;
        char *text = edit (refusals[i].from, refusals[i].to, &len);

        m = manifest_decode (text, len, &err);
        ok (!m && errno == (refusals[i].errnum ? refusals[i].errnum : EBADMSG)
                && strstr (err.text, refusals[i].text) && !strchr (err.text, '\n'),
            "refused: %s", err.text);
        manifest_destroy (m);
        free (text);
    }
}

/* Any cut and any changed byte is found, whatever the JSON would say. */
static void test_damage (void)
{
    struct mg_error err;
    struct manifest *m;
    char *text;
    size_t len;
    int missed = 0;

    text = seal (good, strlen (good), &len);
    for (size_t cut = 0; cut < len; cut++) {
        m = manifest_decode (text, cut, &err);
        missed += m || errno != EBADMSG;
        manifest_destroy (m);
    }
    is_int (missed, 0, "cut at any of %zu bytes: %s", len, err.text);
    for (size_t i = 0; i < len; i++) {
        for (int bit = 0; bit < 8; bit++) {
            text[i] ^= (char)(1 << bit);
            m = manifest_decode (text, len, &err);
            missed += m || errno != EBADMSG;
            manifest_destroy (m);
            text[i] ^= (char)(1 << bit);
        }
    }
    is_int (missed, 0, "any bit changed: %s", err.text);
    free (text);
}

/* Damage behind a right checksum: refused in one line, or read without harm. */
static void test_fuzz (void)
{
    static const char digits[] = "0123456789-.,:[]{}\"\\e ";
    const size_t n = strlen (good);
    int bad = 0, read = 0;

    for (int round = 0; round < 20000; round++) {
        struct mg_error err = { .text = "" };
        char body[sizeof (good)];
        struct manifest *m;
        size_t len;
        char *text;

        memcpy (body, good, n);
        for (unsigned long k = scratch_random (3) + 1; k > 0; k--)
            body[60 + scratch_random (n - 60)]
                = scratch_random (4) ? digits[scratch_random (sizeof (digits) - 1)]
                                     : (char)scratch_random (256);
        text = seal (body, scratch_random (10) ? n : scratch_random (n), &len);
        m = manifest_decode (text, len, &err);
        if (!m)
            bad += err.text[0] == '\0' || strchr (err.text, '\n') || errno == 0;
        read += m != NULL;
        manifest_destroy (m);
        free (text);
    }
    is_int (bad, 0, "20000 damaged manifests: each is read or refused in one line");
    ok (read > 100 && read < 19900, "%d of them are read", read);
}

static const struct checkpoint_value values[] = {
    { "int", CHECKPOINT_INT, .integer = INT64_MIN },
    { "third", CHECKPOINT_REAL, .real = 1.0 / 3 },
    { "whole", CHECKPOINT_REAL, .real = 1e15 },
    { "tiny", CHECKPOINT_REAL, .real = 5e-324 },
    { "nan", CHECKPOINT_REAL, .real = NAN },
    { "inf", CHECKPOINT_REAL, .real = INFINITY },
    { "minus", CHECKPOINT_REAL, .real = -INFINITY },
    { "zero", CHECKPOINT_REAL, .real = -0.0 },
    { "text", CHECKPOINT_TEXT, .text = "a \"b\"\n\xc3\xa4" },
    { "empty", CHECKPOINT_TEXT, .text = "" },
    { .name = NULL },
};

/* What nobody can get from these. */
static const struct {
    struct checkpoint_value value;
    const char *text;
} wrong_values[] = {
    { { "int", CHECKPOINT_TEXT, .text = "old" }, "value int " },
    { { "int", CHECKPOINT_REAL, .real = 3 }, "value int " },
    { { "third", CHECKPOINT_INT, .integer = 3 }, "value third " },
    { { "text", CHECKPOINT_REAL, .real = 3 }, "value text " },
    { { "other", CHECKPOINT_INT, .integer = 3 }, "value other is not in the checkpoint" },
};

/* All values as they were, or NaN where that was? */
static void check_values (const struct manifest *m)
{
    struct checkpoint_value got[sizeof (values) / sizeof (values[0])];
    struct mg_error err = { .text = "" };
    int bad = 0;

    memcpy (got, values, sizeof (got));
    for (size_t i = 0; got[i].name; i++) {
        got[i].integer = 0;
        got[i].real = 77;
        memset (got[i].text, '?', sizeof (got[i].text));
    }
    is_int (manifest_check_values (m, got, &err), 0, "they are all there %s", err.text);
    manifest_get_values (m, got);
    for (size_t i = 0; got[i].name; i++) {
        if (values[i].type == CHECKPOINT_INT)
            bad += got[i].integer != values[i].integer;
        else if (values[i].type == CHECKPOINT_TEXT)
            bad += strcmp (got[i].text, values[i].text) != 0;
        else if (isnan (values[i].real))
            bad += !isnan (got[i].real);
        else
            bad += memcmp (&got[i].real, &values[i].real, sizeof (double)) != 0;
    }
    is_int (bad, 0, "to the last bit");
}

static void test_values (void)
{
    struct checkpoint_value invalid[2] = { { "bad", CHECKPOINT_TEXT, .text = "\xff" } };
    struct manifest m = { .id = { 5, "0123456789abcdef" }, .slab_bytes = 1 }, *back;
    struct mg_error err = { .text = "" };
    char *text;
    size_t len;

    m.values = json_object ();
    m.roster = roster_create (&err);
    is_int (manifest_set_values (&m, values, &err), 0, "values are taken %s", err.text);
    text = manifest_encode (&m, &len, &err);
    back = manifest_decode (text, len, &err);
    if (!ok (back != NULL, "they are encoded and decoded %s", err.text))
        return;
    check_values (back);
    for (size_t i = 0; i < sizeof (wrong_values) / sizeof (wrong_values[0]); i++) {
        struct checkpoint_value wrong[2] = { wrong_values[i].value };

        ok (manifest_check_values (back, wrong, &err) < 0 && errno == EINVAL
                && strstr (err.text, wrong_values[i].text), "refused: %s", err.text);
    }
    ok (manifest_set_values (&m, values, &err) < 0 && errno == EINVAL
            && strstr (err.text, "value int is given twice"), "refused: %s", err.text);
    ok (manifest_set_values (&m, invalid, &err) < 0 && errno == EINVAL, "refused: %s",
        err.text);
    is_int (manifest_set_values (&m, NULL, &err), 0, "no values at all");
    is_int (manifest_check_values (back, NULL, &err), 0, "either way");
    json_decref (m.values);
    roster_destroy (m.roster);
    manifest_destroy (back);
    free (text);
}

int main (void)
{
    alarm (550);
    test_decode ();
    test_refuses ();
    test_damage ();
    test_fuzz ();
    test_values ();
    return done_testing ();
}
