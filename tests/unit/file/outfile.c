/* outfile.c - which names are written, and what is left of those who were killed */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libcore/file/outfile.h"
#include "tests/tap/tap.h"
#include "tests/unit/checkpoint/scratch.h"

#define ID "0123456789abcdef"

static mode_t kind_of (const char *path)
{
    struct stat st;

    return lstat (path, &st) == 0 ? st.st_mode & S_IFMT : 0;
}

static bool holds (const char *path, const char *text)
{
    size_t len;
    char *got = scratch_read (path, &len);
    bool same = strcmp (got, text) == 0;

    free (got);
    return same;
}

/* Entries of a directory. */
static int count (const char *path)
{
    DIR *d = opendir (path);
    int n = -2;

    while (d && readdir (d))
        n++;
    if (d)
        closedir (d);
    return n;
}

static void test_replace (void)
{
    const char *path = scratch_path ("text");
    struct mg_error err;
    struct stat st;

    is_int (outfile_replace (path, "one", 3, &err), 0, "a new file");
    ok (holds (path, "one"), "with its text");
    is_int (outfile_replace (path, "two!", 4, &err), 0, "it is replaced");
    ok (holds (path, "two!"), "the new text");
    is_int (count (scratch_path (".")), 1, "no other file stays");
    chmod (path, 0600);
    is_int (outfile_replace (path, "three", 5, &err), 0, "one that only its owner may read");
    ok (stat (path, &st) == 0 && (st.st_mode & 07777) == 0600, "stays so");
    ok (outfile_replace (scratch_path ("no/file"), "3", 1, &err) < 0 && errno == ENOENT,
        "refused: %s", err.text);
}

/* What is no regular file stays what it is, whoever writes. */
static void test_kinds (void)
{
    static const struct {
        const char *name;
        mode_t kind;
        int errnum;
        bool stream; /* a stream may be it */
    } rows[] = {
        { "dir", S_IFDIR, EISDIR, false },   { "fifo", S_IFIFO, EINVAL, true },
        { "socket", S_IFSOCK, EINVAL, false }, { "device", S_IFCHR, EINVAL, true },
        { "block", S_IFBLK, EINVAL, false },
    };
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int sock = socket (AF_UNIX, SOCK_STREAM, 0);

    mkdir (scratch_path ("kinds"), 0777);
    if (chdir (scratch_path ("kinds")) < 0)
        bail_out ("cannot change directory");
    snprintf (address.sun_path, sizeof (address.sun_path), "socket");
    bind (sock, (struct sockaddr *)&address, sizeof (address));
    close (sock);
    mkdir ("dir", 0777);
    mkfifo ("fifo", 0666);
    mknod ("device", S_IFCHR | 0666, 0x103); /* /dev/null, for root alone */
    mknod ("block", S_IFBLK | 0666, 0x700);
    for (size_t i = 0; i < sizeof (rows) / sizeof (rows[0]); i++) {
        char link[20];
        struct mg_error err = { "" };

        snprintf (link, sizeof (link), "to-%s", rows[i].name);
        if (kind_of (rows[i].name) != rows[i].kind || symlink (rows[i].name, link) < 0) {
            skip (4, "cannot make one");
            continue;
        }
        for (int k = 0; k < 2; k++) {
            const char *name = k ? link : rows[i].name;

            ok (outfile_check (name, OUTFILE_WHOLE, &err) < 0 && errno == rows[i].errnum
                    && outfile_replace (name, "x", 1, &err) < 0 && errno == rows[i].errnum
                    && kind_of (rows[i].name) == rows[i].kind
                    && (k == 0 || kind_of (link) == S_IFLNK),
                "refused: %s", err.text);
            is_int (outfile_check (name, OUTFILE_STREAM, &err), rows[i].stream ? 0 : -1,
                    "as a stream");
        }
    }
    if (chdir ("/") < 0)
        bail_out ("cannot change directory");
}

static void test_stream (void)
{
    const char *path = scratch_path ("pipe");
    char text[8] = "";
    struct mg_error err = { "" };
    struct outfile f;
    FILE *file;
    int fd;

    mkfifo (path, 0666);
    ok (outfile_create (&f, path, OUTFILE_STREAM, &err) < 0 && errno == ENXIO
            && !outfile_append (path, OUTFILE_STREAM, &err) && errno == ENXIO,
        "refused, not waited for: %s", err.text);
    fd = open (path, O_RDONLY | O_NONBLOCK);
    is_int (outfile_create (&f, path, OUTFILE_STREAM, &err), 0, "a FIFO with a reader");
    is_int (outfile_open_stream (&f, &err), 0, "as a stream");
    fputs ("abc", f.stream);
    is_int (outfile_commit (&f, &err), 0, "written");
    ok (read (fd, text, 7) == 3 && strcmp (text, "abc") == 0 && kind_of (path) == S_IFIFO,
        "the reader has it: %s", text);
    file = outfile_append (path, OUTFILE_STREAM, &err);
    ok (file && (fcntl (fileno (file), F_GETFL) & O_NONBLOCK) == 0, "appended to, with waits");
    if (file)
        fclose (file);
    close (fd);
    ok (!outfile_append (path, OUTFILE_WHOLE, &err) && errno == EINVAL, "refused: %s",
        err.text);
}

static void test_links (void)
{
    const char *root = scratch_path ("links");
    struct mg_error err = { "" };

    mkdir (root, 0777);
    if (chdir (root) < 0)
        bail_out ("cannot change directory");
    mkdir ("a", 0777);
    mkdir ("b", 0777);
    scratch_write ("links/b/file", "old", 3);
    symlink ("../b/file", "a/link");
    symlink ("a/link", "far");
    is_int (outfile_replace ("far", "new", 3, &err), 0, "links are followed");
    ok (kind_of ("far") == S_IFLNK && kind_of ("a/link") == S_IFLNK
            && holds ("b/file", "new") && count ("a") == 1 && count ("b") == 1,
        "and stay");
    symlink (scratch_path ("links/b/fresh"), "dangling");
    is_int (outfile_check ("dangling", OUTFILE_WHOLE, &err), 0, "to a file that is missing");
    is_int (outfile_replace ("dangling", "made", 4, &err), 0, "which is made");
    ok (kind_of ("dangling") == S_IFLNK && holds ("b/fresh", "made"), "where it should be");
    symlink ("nowhere/file", "lost");
    ok (outfile_check ("lost", OUTFILE_WHOLE, &err) < 0 && errno == ENOENT
            && outfile_replace ("lost", "x", 1, &err) < 0 && errno == ENOENT,
        "refused: %s", err.text);
    symlink ("round", "round");
    ok (outfile_check ("round", OUTFILE_WHOLE, &err) < 0 && errno == ELOOP, "refused: %s",
        err.text);
    ok (outfile_check ("new/", OUTFILE_WHOLE, &err) < 0, "refused: %s", err.text);
    ok (outfile_check ("", OUTFILE_WHOLE, &err) < 0, "refused: %s", err.text);
    if (access ("/proc/self/fd", X_OK) == 0) {
        int fd = open ("b/file", O_RDWR);
        char path[40];

        snprintf (path, sizeof (path), "/proc/self/fd/%d", fd);
        ok (outfile_replace (path, "x", 1, &err) < 0 && errno == ELOOP && holds ("b/file", "new"),
            "refused: %s", err.text);
        is_int (outfile_check (path, OUTFILE_STREAM, &err), 0, "an open file is a stream");
        close (fd);
    }
    else
        skip (2, "no /proc");
    if (chdir ("/") < 0)
        bail_out ("cannot change directory");
}

static void test_names (void)
{
    char base[NAME_MAX + 2], *path = NULL;
    struct mg_error err = { "" };

    mkdir (scratch_path ("names"), 0777);
    memset (base, 'n', sizeof (base));
    base[NAME_MAX] = '\0';
    if (asprintf (&path, "%s/%s", scratch_path ("names"), base) < 0)
        bail_out ("out of memory");
    is_int (outfile_replace (path, "x", 1, &err), 0, "a name of %d bytes %s", NAME_MAX, err.text);
    is_int (count (scratch_path ("names")), 1, "and nothing else");
    free (path);
    base[NAME_MAX] = 'n';
    base[NAME_MAX + 1] = '\0';
    if (asprintf (&path, "%s/%s", scratch_path ("names"), base) < 0)
        bail_out ("out of memory");
    ok (outfile_check (path, OUTFILE_WHOLE, &err) < 0 && errno == ENAMETOOLONG
            && strstr (err.text, "File name too long"),
        "one more is refused before anything is done");
    free (path);
}

/* Files of killed writers go, those of living ones and of others stay. */
static void test_leftovers (void)
{
    const char *path = scratch_path ("left/file");
    struct mg_error err = { "" };
    struct outfile living, dead;
    pid_t pid;

    mkdir (scratch_path ("left"), 0777);
    scratch_write ("left/file.tmp-" ID, "dead", 4);
    scratch_write ("left/file.tmp-" ID "0", "mine", 4);
    scratch_write ("left/file.tmp-0123456789ABCDEF", "mine", 4);
    scratch_write ("left/file.tmp-", "mine", 4);
    scratch_write ("left/other.tmp-" ID, "mine", 4);
    mkdir (scratch_path ("left/file.tmp-fedcba9876543210"), 0777);
    symlink ("other.tmp-" ID, scratch_path ("left/file.tmp-0000000000000000"));
    is_int (outfile_create (&living, path, OUTFILE_WHOLE, &err), 0, "begun");
    ok (kind_of (scratch_path ("left/file.tmp-" ID)) == 0, "what was left is removed");
    is_int (count (scratch_path ("left")), 7, "other names, and what is no file, stay");
    if ((pid = fork ()) == 0) {
        outfile_drop (&living); /* the parent's lock stays the parent's */
        _exit (0);
    }
    waitpid (pid, NULL, 0);
    outfile_drop (&living);
    is_int (outfile_create (&living, path, OUTFILE_WHOLE, &err), 0, "begun again");
    if ((pid = fork ()) == 0) {
        if (outfile_create (&dead, path, OUTFILE_WHOLE, NULL) < 0)
            _exit (1);
        raise (SIGKILL);
    }
    waitpid (pid, NULL, 0);
    is_int (count (scratch_path ("left")), 8, "a second writer was killed");
    is_int (outfile_replace (path, "third", 5, &err), 0, "a third one is done");
    is_int (count (scratch_path ("left")), 8, "what the second left is gone");
    is_int (outfile_commit (&living, &err), 0, "and the first goes on: %s", err.text);
    ok (holds (path, ""), "and is the last");
}

/* A disk without room: the file by its name, and nothing is left. */
static void test_full (void)
{
    const char *path = scratch_path ("full/file");
    struct rlimit had, limit;
    struct mg_error err = { "" };
    struct outfile f;

    mkdir (scratch_path ("full"), 0777);
    getrlimit (RLIMIT_FSIZE, &had);
    limit = (struct rlimit){ 2, had.rlim_max };
    signal (SIGXFSZ, SIG_IGN);
    is_int (outfile_create (&f, path, OUTFILE_WHOLE, &err), 0, "begun");
    is_int (outfile_open_stream (&f, &err), 0, "as a stream");
    setrlimit (RLIMIT_FSIZE, &limit);
    fputs ("abc", f.stream);
    is_int (outfile_commit (&f, &err), -1, "it does not fit");
    setrlimit (RLIMIT_FSIZE, &had);
    ok (errno == EFBIG && strstr (err.text, "/full/file: File too large"), "%s", err.text);
    is_int (count (scratch_path ("full")), 0, "nothing is left");
}

/* A link of another user in a directory like /tmp.  A kernel with protected_symlinks refuses it,
 * too, but not if that user makes it a moment later.
 */
static void test_foreign_link (void)
{
    const char *dir = scratch_path ("sticky"), *name = scratch_path ("sticky/name"),
               *target = scratch_path ("target");
    struct mg_error err;

    if (geteuid () != 0) {
        skip (3, "only root can be two users");
        return;
    }
    if (mkdir (dir, 0777) < 0 || chmod (dir, 01777) < 0 || symlink (target, name) < 0)
        bail_out ("cannot make a directory and a link");
    is_int (outfile_replace (name, "ours", 4, &err), 0, "one's own link in a sticky directory");
    if (lchown (name, 1, 1) < 0)
        bail_out ("cannot give a link away");
    ok (outfile_replace (name, "theirs", 6, &err) < 0 && errno == EACCES, "another's: %s",
        err.text);
    ok (holds (target, "ours"), "and the file stays");
}

int main (void)
{
    scratch_create ();
    test_replace ();
    test_kinds ();
    test_stream ();
    test_links ();
    test_names ();
    test_leftovers ();
    test_full ();
    test_foreign_link ();
    return done_testing ();
}
