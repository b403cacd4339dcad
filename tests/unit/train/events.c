/* Event files, byte by byte but for the time: records as SummaryWriter of
 * torch.utils.tensorboard writes them.
 */

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "libcore/base/crc32c.h"
#include "libcore/train/events.h"
#include "tests/tap/tap.h"

/* Records: field 1, the time, comes first, as 8 bytes that are left out here. */
#define VERSION "\x1a\x0d" "brain.Event:2"
#define LOSS "\x10\xac\x02\x2a\x10\x0a\x0e\x0a\x07" "lm loss" "\x15\x00\x00\x20\x40"
#define ZERO "\x2a\x0a\x0a\x08\x0a\x01" "z" "\x15\x00\x00\x00\x00"
#define LARGE "\x10\x80\x80\x80\x80\x80\x20\x2a\x0a\x0a\x08\x0a\x01" "z" "\x15\x00\x00\x80\x7f"
#define TEXT                                                                             \
    "\x10\x03\x2a\x2c\x0a\x2a\x0a\x0f" "lr/text_summary" "\x42\x0d\x08\x07\x12\x04\x12\x02" \
    "\x08\x01\x42\x03" "0.1" "\x4a\x08\x0a\x06\x0a\x04" "text"

static char dir[] = "/tmp/events.XXXXXX";
static char names[4][300];

static int find_files (void)
{
    struct dirent *entry;
    DIR *d = opendir (dir);
    int n = 0;

    while (d && (entry = readdir (d)) && n < 4) {
        if (entry->d_name[0] != '.')
            snprintf (names[n++], sizeof (names[0]), "%s/%s", dir, entry->d_name);
    }
    if (d)
        closedir (d);
    return n;
}

static uint32_t masked (const uint8_t *data, size_t n)
{
    uint32_t sum = crc32c (data, n);

    return (sum >> 15 | sum << 17) + 0xa282ead8;
}

/* The next record of a file holds a time not before 'since', and 'want'. */
static void check_record (FILE *file, double since, const char *want, size_t n,
                          const char *what)
{
    uint8_t bytes[512];
    uint64_t length = 0;
    uint32_t sum = 0;
    double at = 0;
    bool read = fread (bytes, 12, 1, file) == 1;

    memcpy (&length, bytes, 8);
    memcpy (&sum, bytes + 8, 4);
    is_int (length, 9 + n, "%s: length", what);
    is_int (sum, masked (bytes, 8), "%s: its sum", what);
    read = read && length + 4 <= sizeof (bytes) && fread (bytes, length + 4, 1, file) == 1;
    ok (read && bytes[0] == 0x09 && memcmp (bytes + 9, want, n) == 0, "%s: data", what);
    memcpy (&at, bytes + 1, 8);
    ok (at >= since && at < since + 3600, "%s: time", what);
    memcpy (&sum, bytes + 9 + n, 4);
    is_int (sum, masked (bytes, 9 + n), "%s: sum of the data", what);
}

#define CHECK(file, since, want, what) \
    check_record (file, since, want, sizeof (want) - 1, what)

static void test_records (void)
{
    struct mg_error err = { "" };
    double since = (double)time (NULL);
    struct events *e = events_create (dir, &err);
    struct stat st;
    FILE *file;

    ok (e != NULL, "created: %s", err.text);
    is_int (find_files (), 1, "one file: %s", names[0]);
    is_int (stat (names[0], &st), 0, "it is there");
    is_int (st.st_size, 16 + 9 + sizeof (VERSION) - 1, "with its version, at once");
    is_int (events_add (e, "lm loss", 2.5, 300, &err), 0, "a number");
    is_int (events_add (e, "z", 0, 0, &err), 0, "0 at step 0");
    is_int (events_add (e, "z", INFINITY, (int64_t)1 << 40, &err), 0, "a large step");
    is_int (events_add_text (e, "lr", "0.1", 3, &err), 0, "a text");
    is_int (events_flush (e, &err), 0, "written");
    file = fopen (names[0], "r");
    CHECK (file, since, VERSION, "version");
    CHECK (file, since, LOSS, "number");
    CHECK (file, since, ZERO, "zero");
    CHECK (file, since, LARGE, "infinity");
    CHECK (file, since, TEXT, "text");
    is_int (fgetc (file), EOF, "and no more");
    fclose (file);
    events_destroy (e);
}

/* A text that is longer than what a number takes. */
static void test_long (void)
{
    static char text[100000];
    struct mg_error err = { "" };
    struct events *e = events_create (dir, &err);
    struct stat st = { .st_size = 0 };
    off_t size = 0;

    ok (e != NULL, "a second one of this process: %s", err.text);
    is_int (find_files (), 2, "is another file");
    memset (text, 'x', sizeof (text) - 1);
    is_int (events_add_text (e, "t", text, 0, &err), 0, "a long text");
    is_int (events_add (e, "after", 1, 1, &err), 0, "a number after it");
    events_destroy (e);
    for (int i = 0; i < 2; i++) {
        stat (names[i], &st);
        size = st.st_size > size ? st.st_size : size;
    }
    ok (size > (off_t)sizeof (text) + 50 && size < (off_t)sizeof (text) + 250,
        "all is written at the end: %lld bytes", (long long)size);
}

static void test_errors (void)
{
    struct mg_error err = { "" };

    ok (!events_create ("/no/such/folder", &err) && errno == ENOENT
        && strncmp (err.text, "/no/such/folder/events.out.tfevents.", 36) == 0
        && strstr (err.text, ": cannot open: No such file"), "%s", err.text);
    events_destroy (NULL);
}

int main (void)
{
    struct mg_error err = { "" };
    int n;

    if (events_check (&err) < 0) {
        skip (1, "%s", err.text);
        return done_testing ();
    }
    if (!mkdtemp (dir))
        return 1;
    test_records ();
    test_long ();
    test_errors ();
    n = find_files ();
    for (int i = 0; i < n; i++)
        unlink (names[i]);
    rmdir (dir);
    return done_testing ();
}
