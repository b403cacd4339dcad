/* split.c - weights to ranges of documents, as Megatron's --split */

#include <errno.h>

#include "libcore/data/split.h"
#include "tests/unit/data/support.h"

static void test_ranges (void)
{
    static const struct {
        const char *text;
        int64_t count;
        int64_t end[SPLIT_NUM_PARTS]; /* where each part ends and the next begins */
    } cases[] = {
        { "969,30,1", 1000, { 969, 999, 1000 } },
        { "969, 30, 1", 1000, { 969, 999, 1000 } },
        { "969,30,1", 1, { 1, 1, 1 } },
        { "969,30,1", 50, { 48, 50, 50 } },
        { "969,30,1", 7222, { 6998, 7215, 7222 } },
        { "99,1,0", 100, { 99, 100, 100 } },
        { "1", 17, { 17, 17, 17 } },
        { "0,1", 17, { 0, 17, 17 } },
        { "1,0,1", 1, { 0, 0, 1 } },    /* 0.5 is rounded to the even 0 ... */
        { "1,0,1", 3, { 2, 2, 3 } },    /* ... and 1.5 to the even 2 */
        { "1,0,1", 5, { 2, 2, 5 } },
        { "1,0,1", 999983, { 499992, 499992, 999983 } },
        { "90/8/2", 1001, { 901, 981, 1001 } },
        { " 90 8\t2 ", 1001, { 901, 981, 1001 } },
        { "90:8;2", 1001, { 901, 981, 1001 } },
        { ".5,.25,0.25", 8, { 4, 6, 8 } },
        { "1,1,1", 4097, { 1366, 2731, 4097 } },
        { "1,1,1", 0, { 0, 0, 0 } },
        { "33,33,34", 4097, { 1352, 2704, 4097 } },
    };

    for (size_t i = 0; i < COUNT (cases); i++) {
        struct mg_error err = { .text = "" };
        struct split split;
        int64_t previous = 0;

        if (!ok (split_parse (cases[i].text, &split, &err) == 0, "\"%s\" is read",
                 cases[i].text)) {
            diag ("%s", err.text);
            continue;
        }
        for (int part = 0; part < SPLIT_NUM_PARTS; part++) {
            int64_t begin = -1;
            int64_t end = -1;

            split_range (&split, part, cases[i].count, &begin, &end);
            is_int (begin, previous, "%s of %lld begins where the last ends",
                    split_part_name (part), (long long)cases[i].count);
            is_int (end, cases[i].end[part], "and has its end");
            previous = end;
        }
    }
}

static void test_bad_text (void)
{
    static const char *const cases[] = {
        "", " ", "abc", "0,0,0", "0", ",", "1,", ",1", "1,,1", "1,2,3,4", "1,2,3,",
        "-1,2,3", "1,-2,3", "+1,2,3", "1e3,1,1", "1.2.3,1,1", ".", "1,.,1", "nan,1,1",
        "inf,1,1", "0x10,1,1", "1,2,x", "1\n,2,3", "99%",
        "99999999999999999999999999999999999999999999999999999999999999999999999999999",
    };

    for (size_t i = 0; i < COUNT (cases); i++) {
        struct mg_error err = { .text = "" };
        struct split split;
        int rc;

        errno = 0;
        rc = split_parse (cases[i], &split, &err);
        ok (rc == -1 && errno == EINVAL && strstr (err.text, "split \"") == err.text
            && !strchr (err.text, '\n'),
            "\"%s\" is refused: %s", cases[i], err.text);
    }
}

static void test_parts (void)
{
    struct mg_error err = { .text = "" };
    enum split_part part = SPLIT_TRAIN;

    ok (split_part_by_name ("train", &part, &err) == 0 && part == SPLIT_TRAIN, "train");
    ok (split_part_by_name ("valid", &part, &err) == 0 && part == SPLIT_VALID, "valid");
    ok (split_part_by_name ("test", &part, &err) == 0 && part == SPLIT_TEST, "test");
    errno = 0;
    ok (split_part_by_name ("validation", &part, &err) == -1 && errno == EINVAL,
        "another name is refused: %s", err.text);
}

static void test_documents (void)
{
    struct mg_error err = { .text = "" };
    int64_t begin;
    int64_t end;

    ok (split_documents ("969,30,1", SPLIT_VALID, 1000, &begin, &end, &err) == 0
        && begin == 969 && end == 999, "a part");
    ok (split_documents (NULL, SPLIT_TEST, 1000, &begin, &end, &err) == 0
        && begin == 0 && end == 1000, "no split: all, whatever the part");
    ok (split_documents ("969,30,1", SPLIT_TEST, 50, &begin, &end, &err) == -1
            && errno == ENODATA,
        "an empty part is refused: %s", err.text);
    ok (split_documents ("1,0,1", SPLIT_VALID, 50, &begin, &end, &err) == -1,
        "a part of weight 0 too: %s", err.text);
    ok (split_documents (NULL, SPLIT_TRAIN, 0, &begin, &end, &err) == -1,
        "nothing of nothing too: %s", err.text);
}

static void test_golden (void)
{
    json_t *golden = load_golden ();
    json_t *cases = json_object_get (golden, "splits");
    json_t *one;
    size_t i;

    json_array_foreach (cases, i, one) {
        const char *text = json_text (one, "split");
        struct split split;
        const char *count;
        json_t *ranges;

        if (json_object_get (one, "error")) {
            ok (split_parse (text, &split, NULL) == -1, "reference: \"%s\" fails", text);
            continue;
        }
        if (!ok (split_parse (text, &split, NULL) == 0, "reference: \"%s\"", text))
            continue;
        json_object_foreach (json_object_get (one, "ranges"), count, ranges) {
            bool same = true;

            for (int part = 0; part < SPLIT_NUM_PARTS; part++) {
                json_t *range = json_array_get (ranges, part);
                int64_t begin;
                int64_t end;

                split_range (&split, part, atoll (count), &begin, &end);
                if (json_is_null (range))
                    same = same && begin == end;
                else
                    same = same && begin == json_integer_value (json_array_get (range, 0))
                           && end == json_integer_value (json_array_get (range, 1));
            }
            ok (same, "reference: \"%s\" of %s documents", text, count);
        }
    }
    json_decref (golden);
}

int main (void)
{
    test_ranges ();
    test_bad_text ();
    test_parts ();
    test_documents ();
    test_golden ();
    return done_testing ();
}
