/* index_text.c - the unique descriptions of Megatron-LM, as Python writes them
 *
 * The texts must be the same bytes as Python's json.dumps() writes, since their MD5 sums name the
 * files.  So numbers are printed as repr() does, and strings in ASCII with escapes.
 */

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libcore/data/gpt_index.h"
#include "libcore/data/index_text.h"
#include "libcore/file/durable.h"

/* A number as Python's repr() gives it: the fewest digits that read back as the same,
 * with an exponent below 1e-4 and from 1e16 on, else with a point. */
static void put_number (FILE *f, double value)
{
    char text[40], digits[24];
    int precision = 0;
    int exponent;
    size_t n;

    do {
        snprintf (text, sizeof (text), "%.*e", precision++, value);
    } while (strtod (text, NULL) != value && precision < 17);
    exponent = atoi (strchr (text, 'e') + 1);
    digits[0] = text[0];
    n = strcspn (text + 1, "e");
    if (n > 1)
        memcpy (digits + 1, text + 2, n - 1); /* behind the point */
    digits[n > 1 ? n : 1] = '\0';
    n = strlen (digits);
    if (exponent < -4 || exponent >= 16)
        fprintf (f, "%c%s%se%c%02d", digits[0], n > 1 ? "." : "", digits + 1,
                 exponent < 0 ? '-' : '+', abs (exponent));
    else if (exponent < 0)
        fprintf (f, "0.%.*s%s", -exponent - 1, "000", digits);
    else if ((int)n <= exponent + 1)
        fprintf (f, "%s%.*s.0", digits, exponent + 1 - (int)n, "0000000000000000");
    else
        fprintf (f, "%.*s.%s", exponent + 1, digits, digits + exponent + 1);
}

/* Bytes of the character of UTF-8 at 'p', and its number; 1 and a lone surrogate for a
 * byte that is none, as Python has the names of files. */
static size_t character_at (const unsigned char *p, uint32_t *c)
{
    static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
    size_t n = *p < 0x80 ? 1 : *p < 0xc0 ? 0 : *p < 0xe0 ? 2 : *p < 0xf0 ? 3
               : *p < 0xf8 ? 4 : 0;

    *c = n > 1 ? *p & (0xffu >> (n + 1)) : *p;
    for (size_t i = 1; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80) /* the end of the text too */
            n = 0;
        else
            *c = *c << 6 | (p[i] & 0x3f);
    }
    if (n == 0 || *c < least[n] || *c > 0x10ffff || (*c >= 0xd800 && *c < 0xe000)) {
        *c = 0xdc00 + *p;
        return 1;
    }
    return n;
}

/* A JSON string of ASCII only. */
static void put_string (FILE *f, const char *text)
{
    static const char plain[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
    const unsigned char *p = (const unsigned char *)text;

    fputc ('"', f);
    while (*p) {
        const char *short_form;
        uint32_t c;

        p += character_at (p, &c);
        if (c < 0x80 && (short_form = strchr (plain, (int)c)))
            fprintf (f, "\\%c", letters[short_form - plain]);
        else if (c >= 0x20 && c < 0x7f)
            fputc ((int)c, f);
        else if (c < 0x10000)
            fprintf (f, "\\u%04" PRIx32, c);
        else
            fprintf (f, "\\u%04" PRIx32 "\\u%04" PRIx32, 0xd800 + ((c - 0x10000) >> 10),
                     0xdc00 + (c & 0x3ff));
    }
    fputc ('"', f);
}

static void put_indent (FILE *f, int depth)
{
    fprintf (f, "\n%*s", 4 * depth, "");
}

/* "name": in front of a value. */
static void put_key (FILE *f, int depth, const char *name, bool first)
{
    if (!first)
        fputc (',', f);
    put_indent (f, depth);
    fprintf (f, "\"%s\": ", name);
}

/* The parts' bounds, null for an empty one. The first bound is Python's integer 0. */
static void put_matrix (FILE *f, int depth, const struct split *split)
{
    fputc ('[', f);
    for (int i = 0; i < SPLIT_NUM_PARTS; i++) {
        if (i > 0)
            fputc (',', f);
        put_indent (f, depth + 1);
        if (!(split->bound[i] < split->bound[i + 1])) {
            fprintf (f, "null");
            continue;
        }
        fputc ('[', f);
        put_indent (f, depth + 2);
        if (i == 0)
            fputc ('0', f);
        else
            put_number (f, split->bound[i]);
        fputc (',', f);
        put_indent (f, depth + 2);
        put_number (f, split->bound[i + 1]);
        put_indent (f, depth + 1);
        fputc (']', f);
    }
    put_indent (f, depth);
    fputc (']', f);
}

static void put_tokenizer (FILE *f, int depth, const struct index_tokenizer *tokenizer)
{
    if (!tokenizer) {
        fprintf (f, "null");
        return;
    }
    fputc ('{', f);
    put_key (f, depth + 1, "cls", true);
    put_string (f, tokenizer->cls);
    put_key (f, depth + 1, "vocab_size", false);
    fprintf (f, "%" PRId64, tokenizer->vocab_size);
    put_indent (f, depth);
    fputc ('}', f);
}

static int put_gpt (FILE *f, int depth, const struct gpt_identity *id,
                    struct mg_error *err)
{
    struct split split;

    if (id->split && split_parse (id->split, &split, err) < 0)
        return -1;
    fputc ('{', f);
    put_key (f, depth + 1, "class", true);
    put_string (f, "GPTDataset");
    put_key (f, depth + 1, "dataset_path", false);
    put_string (f, id->prefix);
    put_key (f, depth + 1, "num_samples", false);
    if (id->num_samples == GPT_INDEX_ONE_EPOCH)
        fprintf (f, "null");
    else
        fprintf (f, "%" PRId64, id->num_samples);
    put_key (f, depth + 1, "index_split", false);
    put_string (f, split_part_name (id->part));
    put_key (f, depth + 1, "random_seed", false);
    fprintf (f, "%" PRId64, id->seed);
    put_key (f, depth + 1, "sequence_length", false);
    fprintf (f, "%d", id->seq_length);
    put_key (f, depth + 1, "split", false);
    if (id->split)
        put_string (f, id->split);
    else
        fprintf (f, "null");
    put_key (f, depth + 1, "split_matrix", false);
    if (id->split)
        put_matrix (f, depth + 1, &split);
    else
        fprintf (f, "null");
    put_key (f, depth + 1, "tokenizer", false);
    put_tokenizer (f, depth + 1, id->tokenizer);
    put_indent (f, depth);
    fputc ('}', f);
    return 0;
}

static int put_blend (FILE *f, const struct blend_identity *id, struct mg_error *err)
{
    fputc ('{', f);
    put_key (f, 1, "class", true);
    put_string (f, "BlendedDataset");
    put_key (f, 1, "datasets", false);
    fputc ('[', f);
    for (size_t i = 0; i < id->count; i++) {
        if (i > 0)
            fputc (',', f);
        put_indent (f, 2);
        if (put_gpt (f, 2, &id->datasets[i], err) < 0)
            return -1;
    }
    put_indent (f, 1);
    fputc (']', f);
    put_key (f, 1, "split", false);
    put_string (f, split_part_name (id->datasets[0].part));
    put_key (f, 1, "weights", false);
    fputc ('[', f);
    for (size_t i = 0; i < id->count; i++) {
        if (i > 0)
            fputc (',', f);
        put_indent (f, 2);
        if (id->weights)
            put_number (f, id->weights[i]);
        else
            fprintf (f, "%" PRId64, id->sizes[i]);
    }
    put_indent (f, 1);
    fputc (']', f);
    put_key (f, 1, "size", false);
    if (id->weights)
        fprintf (f, "%" PRId64, id->size);
    else
        fprintf (f, "null");
    put_indent (f, 0);
    fputc ('}', f);
    return 0;
}

/* One of the two, as a text of its own. */
static char *make_text (const struct gpt_identity *gpt,
                        const struct blend_identity *blend, struct mg_error *err)
{
    char *text = NULL;
    size_t size;
    FILE *f;
    int rc;

    if (!(f = open_memstream (&text, &size))) {
        mg_error_set (err, ENOMEM, "out of memory");
        return NULL;
    }
    rc = gpt ? put_gpt (f, 0, gpt, err) : put_blend (f, blend, err);
    if (rc == 0 && ferror (f))
        rc = mg_error_set (err, ENOMEM, "out of memory");
    if (fclose (f) != 0 && rc == 0)
        rc = mg_error_set (err, ENOMEM, "out of memory");
    if (rc < 0) {
        free (text);
        return NULL;
    }
    return text;
}

char *index_text_gpt (const struct gpt_identity *id, struct mg_error *err)
{
    return make_text (id, NULL, err);
}

char *index_text_blend (const struct blend_identity *id, struct mg_error *err)
{
    return make_text (NULL, id, err);
}

char *index_text_name (const char *directory, const char *kind, enum split_part part,
                       const char *text, struct mg_error *err)
{
    char hex[MD5_HEX_SIZE];

    md5_hex (text, strlen (text), hex);
    return durable_path (err, "%s/%s-%s-%s-", directory, hex, kind,
                         split_part_name (part));
}

void index_names_clear (struct index_names *names)
{
    int saved_errno = errno;

    free (names->text);
    free (names->description);
    for (int i = 0; i < names->num_arrays; i++)
        free (names->array[i]);
    *names = (struct index_names){ 0 };
    errno = saved_errno;
}

int index_names_make (struct index_names *names, char *text, const char *directory,
                      const char *kind, enum split_part part, const char *const *endings, int n,
                      struct mg_error *err)
{
    char *base = NULL;
    int rc = -1;

    *names = (struct index_names){ .text = text, .num_arrays = n };
    if (!text || !(base = index_text_name (directory, kind, part, text, err))
        || !(names->description = durable_path (err, "%sdescription.txt", base)))
        goto done;
    for (int i = 0; i < n; i++) {
        if (!(names->array[i] = durable_path (err, "%s%s", base, endings[i])))
            goto done;
    }
    rc = 0;
done:
    free (base);
    if (rc < 0)
        index_names_clear (names);
    return rc;
}

bool index_names_exist (const struct index_names *names)
{
    bool exist = access (names->description, F_OK) == 0;

    for (int i = 0; i < names->num_arrays; i++)
        exist = exist && access (names->array[i], F_OK) == 0;
    return exist;
}
