/* crash.c - a machine that loses its power in the middle of a save
 *
 * Everything that saves do to the file system is recorded: this program's own open(), write()
 * and so on stand in for the C library's.  Then, for every moment, directories are made as a
 * file system may show them after a crash at that moment, and the reader looks at each:
 *
 *   data of a file    what was there at its last fsync, that and half of the rest, or all
 *   entries of a      those of its last fsync, and of what was done since then the first n
 *   directory         (for every n, while other directories have none or all of theirs), or
 *                     all but one that no later one needs
 *
 * The reader must find the checkpoint that was saved last, or the one being saved, whole.
 */

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <xxhash.h>

#include "libcore/checkpoint/audit.h"
#include "libcore/checkpoint/checkpoint.h"
#include "libcore/checkpoint/store.h"
#include "tests/tap/tap.h"
#include "tests/unit/checkpoint/model.h"
#include "tests/unit/checkpoint/scratch.h"
#include "tests/unit/checkpoint/threads.h"

enum { RANKS = 3, OPS_MAX = 4000, ENTRIES_MAX = 64, STATES_MAX = 200000 };

/* --- recording --- */

enum kind { CREATE, MAKE_DIR, WRITE, SYNC, RENAME, REMOVE, SAVED };

static struct op {
    enum kind kind;
    char path[200], to[200]; /* below the directory; "" is the directory itself */
    char *data;
    size_t len;
    int64_t iteration; /* SAVED */
} ops[OPS_MAX];

static size_t num_ops;
static char recorded[PATH_MAX]; /* empty: nothing is */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int fail_sync = -1; /* so many syncs of directories succeed; -1: all */

/* What stands behind the directory in a path; NULL: it is elsewhere. */
static const char *below (const char *path)
{
    size_t len = strlen (recorded);

    if (len == 0 || strncmp (path, recorded, len) != 0)
        return NULL;
    return path[len] == '/' ? path + len + 1 : path[len] == '\0' ? path + len : NULL;
}

static void record (enum kind kind, const char *path, const char *to, const void *data,
                    size_t len)
{
    const char *at = below (path);

    if (!at)
        return;
    pthread_mutex_lock (&mutex);
    if (num_ops < OPS_MAX) {
        struct op *op = &ops[num_ops++];

        *op = (struct op){ .kind = kind, .len = len };
        snprintf (op->path, sizeof (op->path), "%s", at);
        snprintf (op->to, sizeof (op->to), "%s", to ? below (to) : "");
        if (len > 0 && (op->data = malloc (len)))
            memcpy (op->data, data, len);
    }
    pthread_mutex_unlock (&mutex);
}

static const char *path_of (int fd, char path[PATH_MAX])
{
    char link[40];
    ssize_t len;

    snprintf (link, sizeof (link), "/proc/self/fd/%d", fd);
    len = readlink (link, path, PATH_MAX - 1);
    path[len > 0 ? len : 0] = '\0';
    return path;
}

int open (const char *path, int flags, ...)
{
    mode_t mode = 0;
    va_list ap;
    int fd;

    if (flags & O_CREAT) {
        va_start (ap, flags);
        mode = va_arg (ap, mode_t);
        va_end (ap);
    }
    fd = (int)syscall (SYS_openat, AT_FDCWD, path, flags, mode);
    if (fd >= 0 && (flags & O_CREAT))
        record (CREATE, path, NULL, NULL, 0);
    return fd;
}

ssize_t write (int fd, const void *data, size_t len)
{
    ssize_t n = syscall (SYS_write, fd, data, len);
    char path[PATH_MAX];

    if (n > 0 && recorded[0])
        record (WRITE, path_of (fd, path), NULL, data, (size_t)n);
    return n;
}

int fsync (int fd)
{
    char path[PATH_MAX];
    struct stat st;

    path_of (fd, path);
    if (recorded[0] && below (path) && fail_sync >= 0 && fstat (fd, &st) == 0
        && S_ISDIR (st.st_mode) && fail_sync-- == 0) {
        errno = EIO;
        return -1;
    }
    record (SYNC, path, NULL, NULL, 0);
    return 0;
}

int rename (const char *from, const char *to)
{
    int rc = (int)syscall (SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);

    if (rc == 0)
        record (RENAME, from, to, NULL, 0);
    return rc;
}

int mkdir (const char *path, mode_t mode)
{
    int rc = (int)syscall (SYS_mkdirat, AT_FDCWD, path, mode);

    if (rc == 0)
        record (MAKE_DIR, path, NULL, NULL, 0);
    return rc;
}

int unlinkat (int dir, const char *name, int flags)
{
    char path[PATH_MAX], whole[2 * PATH_MAX];
    int rc = (int)syscall (SYS_unlinkat, dir, name, flags);

    if (rc == 0 && recorded[0]) {
        snprintf (whole, sizeof (whole), "%s/%s", path_of (dir, path), name);
        record (REMOVE, dir == AT_FDCWD ? name : whole, NULL, NULL, 0);
    }
    return rc;
}

int unlink (const char *path)
{
    return unlinkat (AT_FDCWD, path, 0);
}

int rmdir (const char *path)
{
    return unlinkat (AT_FDCWD, path, AT_REMOVEDIR);
}

/* --- the file system --- */

struct node {
    bool is_dir;
    char *data; /* of a file */
    size_t len, synced;
    struct entry {
        char name[100];
        struct node *node;
    } live[ENTRIES_MAX], disk[ENTRIES_MAX], shown[ENTRIES_MAX]; /* shown: in a state */
    int num_live, num_disk, num_shown;
    struct change {
        char add[100], remove[100]; /* names, "": none */
        struct node *node;
    } *pending;
    int num_pending;
};

static struct node *nodes[OPS_MAX + 1];
static size_t num_nodes;

static struct node *new_node (bool is_dir)
{
    struct node *n = calloc (1, sizeof (*n));

    if (!n || num_nodes > OPS_MAX
        || (is_dir && !(n->pending = calloc (OPS_MAX, sizeof (*n->pending)))))
        bail_out ("out of memory");
    n->is_dir = is_dir;
    return nodes[num_nodes++] = n;
}

static int find (const struct entry *list, int n, const char *name)
{
    for (int i = 0; i < n; i++) {
        if (strcmp (list[i].name, name) == 0)
            return i;
    }
    return -1;
}

/* One change of a directory's entries; a name that is not there is not removed. */
static void change (struct entry *list, int *n, const struct change *c)
{
    int at;

    if (c->remove[0] && (at = find (list, *n, c->remove)) >= 0)
        list[at] = list[--*n];
    if (!c->add[0])
        return;
    if ((at = find (list, *n, c->add)) < 0)
        at = (*n)++;
    if (*n > ENTRIES_MAX)
        bail_out ("too many entries");
    snprintf (list[at].name, sizeof (list[at].name), "%s", c->add);
    list[at].node = c->node;
}

/* The node of a path; *parent and *name: where it stands. */
static struct node *look_up (const char *path, struct node **parent, char name[100])
{
    struct node *n = nodes[0];
    const char *at = path;

    *parent = NULL;
    while (n && *at) {
        size_t len = strcspn (at, "/");
        int i;

        snprintf (name, 100, "%.*s", (int)len, at);
        *parent = n;
        i = find (n->live, n->num_live, name);
        n = i < 0 ? NULL : n->live[i].node;
        at += len + (at[len] == '/');
    }
    return n;
}

static void do_change (struct node *dir, const char *add, const char *removed, struct node *node)
{
    struct change *c = &dir->pending[dir->num_pending++];

    snprintf (c->add, sizeof (c->add), "%s", add);
    snprintf (c->remove, sizeof (c->remove), "%s", removed);
    c->node = node;
    change (dir->live, &dir->num_live, c);
}

static void play (const struct op *op)
{
    struct node *parent, *to, *n;
    char name[100], new_name[100];

    n = look_up (op->path, &parent, name);
    if (op->kind == CREATE || op->kind == MAKE_DIR)
        do_change (parent, name, "", new_node (op->kind == MAKE_DIR));
    else if (op->kind == REMOVE)
        do_change (parent, "", name, NULL);
    else if (op->kind == RENAME) {
        look_up (op->to, &to, new_name);
        if (to != parent)
            bail_out ("a rename to another directory");
        do_change (parent, new_name, name, n);
    }
    else if (op->kind == WRITE && n) {
        if (!(n->data = realloc (n->data, n->len + op->len)))
            bail_out ("out of memory");
        memcpy (n->data + n->len, op->data, op->len);
        n->len += op->len;
    }
    else if (op->kind == SYNC && n && n->is_dir) {
        memcpy (n->disk, n->live, sizeof (n->disk));
        n->num_disk = n->num_live;
        n->num_pending = 0;
    }
    else if (op->kind == SYNC && n)
        n->synced = n->len;
}

/* --- states --- */

enum data { LOST, HALF, KEPT };

static int64_t failed = -1; /* of which the save has failed, after the last one: may be there */
static uint64_t *seen;
static size_t num_seen, num_tried, num_bad, num_overruled;

static size_t shown_len (const struct node *n, enum data data)
{
    return data == KEPT ? n->len : data == HALF ? (n->synced + n->len) / 2 : n->synced;
}

/* Its entries with the first 'count' changes, but not the one at 'without'. */
static void show (struct node *dir, int count, int without)
{
    memcpy (dir->shown, dir->disk, sizeof (dir->shown));
    dir->num_shown = dir->num_disk;
    for (int i = 0; i < count; i++) {
        if (i != without)
            change (dir->shown, &dir->num_shown, &dir->pending[i]);
    }
}

static void make_state (const struct node *dir, const char *path, enum data data)
{
    char name[PATH_MAX];

    mkdir (path, 0777);
    for (int i = 0; i < dir->num_shown; i++) {
        const struct node *n = dir->shown[i].node;
        size_t len;
        FILE *f;

        snprintf (name, sizeof (name), "%s/%s", path, dir->shown[i].name);
        if (n->is_dir) {
            make_state (n, name, data);
            continue;
        }
        len = shown_len (n, data);
        if (!(f = fopen (name, "w")) || (len > 0 && fwrite (n->data, 1, len, f) != len)
            || fclose (f) != 0)
            bail_out ("cannot write %s", name);
    }
}

/* The same whatever the order of the entries. */
static uint64_t hash_state (const struct node *dir, enum data data)
{
    uint64_t sum = (uint64_t)dir->num_shown;

    for (int i = 0; i < dir->num_shown; i++) {
        const struct node *n = dir->shown[i].node;
        uint64_t own = n->is_dir ? hash_state (n, data)
                                 : XXH3_64bits (n->data, shown_len (n, data));

        sum += XXH3_64bits_withSeed (dir->shown[i].name, strlen (dir->shown[i].name), own);
    }
    return sum;
}

static void no_fault (void *arg, enum audit_kind kind, const char *file, const char *text)
{
    (void)kind;
    snprintf (arg, MG_ERROR_MAX, "%s: %s", file, text);
}

/* The reader's verdict: before and next are the iterations that it may find. */
static void judge (const char *path, int64_t before, int64_t next, size_t at, const char *what)
{
    struct mg_error err = { "" }, fault = { "" };
    int64_t found = checkpoint_latest (path, &err), said = -1;
    struct audit audit = { .faults = 0 };
    bool good;
    char *one;

    if (found < 0)
        good = before < 0 && errno == ENOENT;
    else {
        one = store_find (path, found, &err);
        good = one && audit_checkpoint (one, found, no_fault, fault.text, &audit, &err) == 0
               && audit.faults == 0 && (found == before || found == next || found == failed);
        free (one);
    }
    if (store_read_latest (path, &said, NULL) == 0 && said != found)
        num_overruled++;
    num_tried++;
    if (!good && num_bad++ < 5)
        diag ("after operation %zu (%s %s): %s: found %jd of %jd and %jd, latest %jd: %s %s", at,
              at ? ops[at - 1].path : "", at ? ops[at - 1].to : "", what, (intmax_t)found,
              (intmax_t)before, (intmax_t)next, (intmax_t)said, err.text, fault.text);
}

static void try_state (int64_t before, int64_t next, size_t at, const char *what)
{
    const char *path = scratch_path ("state");

    for (enum data data = LOST; data <= KEPT; data++) {
        uint64_t hash = hash_state (nodes[0], data) * 31 + (uint64_t)(before * 8 + next);
        size_t i = 0;

        while (i < num_seen && seen[i] != hash)
            i++;
        if (i < num_seen)
            continue;
        if (num_seen == STATES_MAX)
            bail_out ("too many states");
        seen[num_seen++] = hash;
        make_state (nodes[0], path, data);
        judge (path, before, next, at, what);
        scratch_remove_tree (path);
    }
}

static void show_all (bool kept)
{
    for (size_t i = 0; i < num_nodes; i++) {
        if (nodes[i]->is_dir)
            show (nodes[i], kept ? nodes[i]->num_pending : 0, -1);
    }
}

/* Does a later change need this one? */
static bool is_needed (const struct node *dir, int change_at)
{
    const struct change *c = &dir->pending[change_at];

    for (int i = change_at + 1; i < dir->num_pending; i++) {
        const struct change *d = &dir->pending[i];

        if ((c->add[0] && (strcmp (c->add, d->remove) == 0 || strcmp (c->add, d->add) == 0))
            || (c->remove[0] && strcmp (c->remove, d->add) == 0))
            return true;
    }
    return false;
}

static void crash (int64_t before, int64_t next, size_t at)
{
    for (int kept = 0; kept < 2; kept++) {
        show_all (kept);
        try_state (before, next, at, kept ? "all kept" : "all lost");
        for (size_t i = 0; i < num_nodes; i++) {
            struct node *dir = nodes[i];

            for (int n = 0; n <= dir->num_pending; n++) {
                show (dir, n, -1);
                try_state (before, next, at, "some of a directory");
            }
            for (int n = 0; n < dir->num_pending; n++) {
                show (dir, dir->num_pending, n);
                if (!is_needed (dir, n))
                    try_state (before, next, at, "one lost");
            }
            if (dir->is_dir)
                show (dir, kept ? dir->num_pending : 0, -1);
        }
    }
}

static int64_t next_saved (size_t from, int64_t none)
{
    for (size_t i = from; i < num_ops; i++) {
        if (ops[i].kind == SAVED)
            return ops[i].iteration;
    }
    return none;
}

/* Every moment of what was recorded. */
static void replay (const char *what)
{
    int64_t before = -1;
    size_t tried = num_tried, bad = num_bad;

    recorded[0] = '\0';
    num_nodes = 0;
    num_seen = 0;
    new_node (true);
    crash (before, next_saved (0, before), 0);
    for (size_t i = 0; i < num_ops; i++) {
        if (ops[i].kind == SAVED)
            before = ops[i].iteration;
        else
            play (&ops[i]);
        crash (before, next_saved (i + 1, before), i + 1);
    }
    ok (num_ops < OPS_MAX && num_tried > tried + 10 && num_bad == bad,
        "%s: %zu operations, %zu states, %zu of them bad", what, num_ops, num_tried - tried,
        num_bad - bad);
    for (size_t i = 0; i < num_nodes; i++) {
        free (nodes[i]->data);
        free (nodes[i]->pending);
        free (nodes[i]);
    }
    for (size_t i = 0; i < num_ops; i++)
        free (ops[i].data);
    num_ops = 0;
}

/* --- saves --- */

struct run {
    const char *dir;
    int64_t iteration;
    bool aside;
    int rc;
    struct mg_error err;
};

static void *write_aside (void *arg)
{
    checkpoint_save_write (arg);
    return NULL;
}

static void save (struct mg_comm *comm, void *arg)
{
    struct checkpoint_value values[] = { { .name = NULL } };
    struct run *run = arg;
    struct checkpoint_save *s;
    struct mg_error err = { "" };
    struct model m;
    pthread_t thread;
    int rc = -1;

    model_create (&m, model_small, model_small_count, MODEL_ROWS, mg_comm_rank (comm),
                  mg_comm_size (comm));
    model_fill (&m, (unsigned int)num_tried);
    s = checkpoint_save_begin (run->dir, run->iteration, values, m.pieces, m.n, comm, &err);
    if (s && run->aside && pthread_create (&thread, NULL, write_aside, s) == 0)
        pthread_join (thread, NULL);
    else if (s)
        checkpoint_save_write (s);
    if (s)
        rc = checkpoint_save_finish (s, &err);
    model_destroy (&m);
    if (mg_comm_rank (comm) == 0) {
        run->rc = rc;
        run->err = err;
    }
}

/* One save, and what is kept of the ones before. */
static void save_one (const char *dir, int64_t iteration, bool aside, int64_t keep)
{
    struct checkpoint_keep kept = { .last = keep };
    struct run run = { .dir = dir, .iteration = iteration, .aside = aside };

    threads_run (RANKS, save, &run);
    is_int (run.rc, 0, "saved %jd %s", (intmax_t)iteration, run.err.text);
    ops[num_ops++] = (struct op){ .kind = SAVED, .iteration = iteration };
    if (keep > 0)
        is_int (checkpoint_prune (dir, &kept, &run.err), 0, "the last %jd kept", (intmax_t)keep);
}

static const char *start (const char *name)
{
    const char *dir = scratch_path (name);

    mkdir (dir, 0777);
    snprintf (recorded, sizeof (recorded), "%s", dir);
    return dir;
}

static void test_saves (bool aside)
{
    const char *dir = start (aside ? "aside" : "d");

    save_one (dir, 1, aside, 0);
    save_one (dir, 2, aside, 0);
    save_one (dir, 2, aside, 0); /* in place of itself */
    /* What a killed save has left. */
    mkdir (scratch_path (aside ? "aside/iter_0000003.tmp-0123456789abcdef"
                               : "d/iter_0000003.tmp-0123456789abcdef"), 0777);
    close (open (scratch_path (aside ? "aside/iter_0000003.tmp-0123456789abcdef/shard_00000.bin"
                                     : "d/iter_0000003.tmp-0123456789abcdef/shard_00000.bin"),
                 O_WRONLY | O_CREAT | O_EXCL, 0666));
    save_one (dir, 3, aside, 2);
    save_one (dir, 4, aside, 1);
    save_one (dir, 4, aside, 1);
    replay (aside ? "written aside" : "saves");
}

/* Every sync of a directory fails once: the save fails, what is the latest is there, and what
 * a crash shows later too.
 */
static void test_failed_sync (int64_t first, int64_t second, const char *what)
{
    struct run run;
    int n = 0;

    do {
        char name[40];
        struct mg_error err = { "" };
        int64_t said = -1;
        char *path = NULL;

        snprintf (name, sizeof (name), "fail-%s-%d", what, n);
        run = (struct run){ .dir = start (name), .iteration = second };
        if (first >= 0)
            save_one (run.dir, first, false, 0);
        fail_sync = n;
        threads_run (RANKS, save, &run);
        if (fail_sync >= 0) /* there were not as many */
            run.rc = 1;
        fail_sync = -1;
        if (run.rc < 0) {
            is_int (checkpoint_latest (run.dir, &err), first, "sync %d fails: %s", n,
                    run.err.text);
            if (store_read_latest (run.dir, &said, NULL) == 0)
                ok ((path = store_find (run.dir, said, &err)) && said == first,
                    "the latest file names one that is there: %jd %s", (intmax_t)said, err.text);
            else
                ok (first < 0, "there is no latest file");
            free (path);
        }
        failed = second;
        replay (name);
        failed = -1;
        n++;
    } while (run.rc <= 0 && n < 100);
    ok (n > 3 && n < 100, "%d syncs of directories", n - 1);
}

int main (void)
{
    alarm (550);
    /* In memory if possible: states are many, and small. */
    if (access ("/dev/shm", W_OK) == 0)
        setenv ("TMPDIR", "/dev/shm", 1);
    scratch_create ();
    if (!(seen = calloc (STATES_MAX, sizeof (*seen))))
        bail_out ("out of memory");
    test_saves (false);
    test_saves (true);
    diag ("in %zu states the latest file was overruled", num_overruled);
    test_failed_sync (-1, 1, "first");
    test_failed_sync (1, 2, "second");
    test_failed_sync (2, 2, "same");
    free (seen);
    return done_testing ();
}
