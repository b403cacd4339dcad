/* dirlock.c - one writer of checkpoints in a directory at a time
 *
 * The lock decides; the words in the file only serve messages.  On a file system without locks
 * the words decide: the directory is refused if the writer is a process of this host that still
 * runs.  If it cannot be known whether the writer still runs, the directory is taken,
 * with a note.
 *
 * A process that may read the file can hold a read lock, which keeps writers out.  So nobody may
 * read the file but those who may write in the directory; and a file with a read lock, which no
 * writer takes, is replaced by a new one.
 */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "libcore/file/dirlock.h"
#include "libcore/file/durable.h"

enum {
    WORD = 64,   /* bytes of a name or a number in the file, with the final 0 */
    TEXT = 1024, /* bytes of the file at most */
    TRIES = 30,  /* tries to get a lock that another process holds */
    PAUSE = 100  /* milliseconds between tries */
};

/* The contents of the file.  An empty word is not known. */
struct writer {
    char host[WORD], pid[WORD], start[WORD]; /* start: of the process, in ticks */
    char cluster[WORD], job[WORD], restart[WORD];
    char since[WORD], id[WORD];
};

struct dirlock {
    char *dir, *path;
    int fd;
    struct writer self;
    struct mg_error note;
};

enum held { FREE, HELD, READ_LOCKED, NO_LOCKS };

/* --- the contents of the file --- */

static const struct {
    const char *key;
    size_t offset;
} words[] = {
    { "host", offsetof (struct writer, host) },
    { "pid", offsetof (struct writer, pid) },
    { "start", offsetof (struct writer, start) },
    { "cluster", offsetof (struct writer, cluster) },
    { "job", offsetof (struct writer, job) },
    { "restart", offsetof (struct writer, restart) },
    { "since", offsetof (struct writer, since) },
    { "id", offsetof (struct writer, id) },
};

enum { NUM_WORDS = sizeof (words) / sizeof (words[0]) };

/* Copy 'text'; a character that cannot stand in a line of a log becomes '?'. */
static void set_word (char *word, const char *text)
{
    size_t n = 0;

    for (; text && *text && n < WORD - 1; text++)
        word[n++] = *text > ' ' && *text < 127 ? *text : '?';
    word[n] = '\0';
}

/* The time at which the process began, field 22 of its line in /proc.  Two processes that have
 * the same number, one after the other, differ in it.
 */
static void read_start (const char *pid, char word[WORD])
{
    char path[100], line[1024], *at = NULL;
    FILE *file;

    word[0] = '\0';
    snprintf (path, sizeof (path), "/proc/%.60s/stat", pid);
    if (!(file = fopen (path, "re")))
        return;
    if (fgets (line, sizeof (line), file))
        at = strrchr (line, ')'); /* the end of the name, field 2 */
    for (int field = 2; at && field < 22; field++) {
        at = strchr (at, ' ');
        at += at != NULL;
    }
    if (at) {
        at[strcspn (at, " \n")] = '\0';
        set_word (word, at);
    }
    fclose (file);
}

static void describe_self (struct writer *w)
{
    char host[256] = "", number[20];
    time_t now = time (NULL);
    struct tm tm;

    memset (w, 0, sizeof (*w));
    if (gethostname (host, sizeof (host) - 1) == 0)
        set_word (w->host, host);
    snprintf (number, sizeof (number), "%ld", (long)getpid ());
    set_word (w->pid, number);
    read_start (w->pid, w->start);
    set_word (w->cluster, getenv ("SLURM_CLUSTER_NAME"));
    set_word (w->job, getenv ("SLURM_JOB_ID"));
    set_word (w->restart, getenv ("SLURM_RESTART_COUNT"));
    if (gmtime_r (&now, &tm))
        strftime (w->since, sizeof (w->since), "%Y-%m-%dT%H:%M:%SZ", &tm);
    durable_make_id (w->id);
}

static int write_writer (const struct dirlock *lock, struct mg_error *err)
{
    char text[TEXT];
    int n = 0;

    for (int i = 0; i < NUM_WORDS; i++)
        n += snprintf (text + n, sizeof (text) - (size_t)n, "%s=%s\n", words[i].key,
                       (const char *)&lock->self + words[i].offset);
    if (ftruncate (lock->fd, 0) < 0)
        return mg_error_set (err, errno, "cannot write %s: %s", lock->path, strerror (errno));
    return durable_write (lock->fd, lock->path, text, (size_t)n, err); // the file is at its start
}

/* Read the file.  If it holds something else, or cannot be read, the words are empty.  -1 and errno
 * if it cannot be read.
 */
static int read_writer (int fd, struct writer *w)
{
    char text[TEXT];
    size_t len = 0;
    ssize_t n;

    memset (w, 0, sizeof (*w));
    while ((n = pread (fd, text + len, sizeof (text) - 1 - len, (off_t)len)) != 0) {
        if (n < 0 && errno != EINTR)
            return -1;
        len += n > 0 ? (size_t)n : 0;
    }
    text[len] = '\0';
    for (char *line = text; *line;) {
        char *end = line + strcspn (line, "\n"), *next = *end ? end + 1 : end;
        char *value = memchr (line, '=', (size_t)(end - line));

        *end = '\0';
        if (value) {
            *value++ = '\0';
            for (int i = 0; i < NUM_WORDS; i++) {
                if (strcmp (line, words[i].key) == 0)
                    set_word ((char *)w + words[i].offset, value);
            }
        }
        line = next;
    }
    return 0;
}

/* --- who lives --- */

/* True if the writer is this same job, before Slurm started it again. */
static bool is_former_life (const struct writer *w, const struct writer *self)
{
    return w->job[0] && strcmp (w->job, self->job) == 0
           && strcmp (w->cluster, self->cluster) == 0
           && atoi (w->restart) < atoi (self->restart);
}

static bool is_here (const struct writer *w, const struct writer *self)
{
    return strcmp (w->host, self->host) == 0;
}

/* True if the writer, a process of this host, still runs.  Another process may have its
 * number now. */
static bool is_running (const struct writer *w)
{
    char start[WORD];
    long pid = atol (w->pid);

    if (pid <= 0 || (kill ((pid_t)pid, 0) < 0 && errno == ESRCH))
        return false;
    read_start (w->pid, start);
    return !w->start[0] || strcmp (start, w->start) == 0;
}

/* "host a, process 12, Slurm job 7, since ..." */
static const char *writer_text (const struct writer *w, char text[5 * WORD])
{
    if (w->host[0])
        snprintf (text, 5 * WORD, "host %s, process %s%s%s, since %s", w->host, w->pid,
                  w->job[0] ? ", Slurm job " : "", w->job, w->since);
    else
        snprintf (text, 5 * WORD, "whose name is not known");
    return text;
}

/* --- taking --- */

/* Users who may write in the directory may take it next, and then write the file.  All others may
 * not even read the file.
 */
static void set_mode (int fd, const struct stat *file, const char *path)
{
    mode_t mode = S_IRUSR | S_IWUSR;
    struct stat dir;

    if (file->st_uid != geteuid () || stat (path, &dir) < 0)
        return;
    if ((dir.st_mode & S_IWGRP)
        && (file->st_gid == dir.st_gid || fchown (fd, (uid_t)-1, dir.st_gid) == 0))
        mode |= S_IRGRP | S_IWGRP;
    if (dir.st_mode & S_IWOTH)
        mode |= S_IRGRP | S_IWGRP | S_IROTH | S_IWOTH;
    if ((file->st_mode & 0777) != mode)
        (void)!fchmod (fd, mode); // some file systems have no modes
}

static int open_file (const struct dirlock *lock, struct mg_error *err)
{
    int fd = open (lock->path,
                   O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0600);
    struct stat st;

    if (fd < 0 || fstat (fd, &st) < 0) {
        mg_error_set (err, errno, "cannot open %s: %s", lock->path, strerror (errno));
        goto error;
    }
    if (!S_ISREG (st.st_mode)) {
        mg_error_set (err, EINVAL, "%s: it is not a regular file", lock->path);
        goto error;
    }
    set_mode (fd, &st, lock->dir);
    return fd;
error:
    if (fd >= 0)
        close (fd);
    return -1;
}

static int lock_call (int fd, int command, struct flock *whole)
{
    int rc;

    *whole = (struct flock){ .l_type = F_WRLCK, .l_whence = SEEK_SET };
    while ((rc = fcntl (fd, command, whole)) < 0 && errno == EINTR)
        continue;
    return rc;
}

static enum held try_lock (int fd)
{
    struct flock whole;

    if (lock_call (fd, F_OFD_SETLK, &whole) == 0)
        return FREE;
    if (errno != EAGAIN && errno != EACCES)
        return NO_LOCKS;
    /* F_OFD_GETLK returns the conflicting lock.  If that is a read lock, no writer has
     * locked the whole file.
     */
    return lock_call (fd, F_OFD_GETLK, &whole) == 0 && whole.l_type == F_RDLCK ? READ_LOCKED
                                                                               : HELD;
}

/* True if 'path' is still the name of the open file. */
static bool has_name (int fd, const char *path)
{
    struct stat by_fd, by_name;

    return fstat (fd, &by_fd) == 0 && lstat (path, &by_name) == 0
           && by_fd.st_ino == by_name.st_ino && by_fd.st_dev == by_name.st_dev;
}

static int refuse (const struct dirlock *lock, const struct writer *w, struct mg_error *err)
{
    char text[5 * WORD];

    return mg_error_set (err, EBUSY, "%s: another run saves there: %s; if that run is over, "
                         "remove %s", lock->dir, writer_text (w, text), lock->path);
}

/* On a file system without locks: 0 if the directory may be taken. */
static int judge (struct dirlock *lock, const struct writer *w, struct mg_error *err)
{
    char text[5 * WORD];

    if (!w->host[0] || is_former_life (w, &lock->self))
        return 0;
    if (is_here (w, &lock->self))
        return is_running (w) ? refuse (lock, w, err) : 0;
    mg_error_set (&lock->note, 0, "%s: its file system has no locks: whether an earlier run "
                  "is over is not known: %s", lock->dir, writer_text (w, text));
    return 0;
}

/* Try once.  0: taken, 1: try again at once, 2: try again later, -1: error. */
static int try_take (struct dirlock *lock, struct writer *w, struct mg_error *err)
{
    enum held held;
    int rc = 0;

    if ((lock->fd = open_file (lock, err)) < 0)
        return -1;
    held = try_lock (lock->fd);
    if (held != HELD && !has_name (lock->fd, lock->path))
        rc = 1; /* another process removed the file just now */
    else if (held == READ_LOCKED)
        rc = unlink (lock->path) == 0 || errno == ENOENT ? 1 : 2;
    else if (held != FREE) {
        rc = read_writer (lock->fd, w);
        if (rc < 0 && held == NO_LOCKS)
            mg_error_set (err, errno, "cannot read %s: %s", lock->path, strerror (errno));
        else if (held == NO_LOCKS)
            rc = judge (lock, w, err);
        else if (is_former_life (w, &lock->self))
            rc = unlink (lock->path) == 0 || errno == ENOENT ? 1 : 2;
        else
            rc = 2;
    }
    if (rc == 0)
        rc = write_writer (lock, err);
    if (rc != 0) {
        int saved_errno = errno;

        close (lock->fd);
        lock->fd = -1;
        errno = saved_errno;
    }
    return rc;
}

static int take (struct dirlock *lock, struct mg_error *err)
{
    const struct timespec pause = { 0, PAUSE * 1000000L };
    struct writer w = { .host = "" };
    int rc;

    for (int i = 0; i < TRIES; i++) {
        rc = try_take (lock, &w, err);
        if (rc <= 0)
            return rc;
        if (rc == 2)
            nanosleep (&pause, NULL);
    }
    return refuse (lock, &w, err);
}

struct dirlock *dirlock_take (const char *dir, struct mg_error *err)
{
    struct dirlock *lock;

    if (!(lock = calloc (1, sizeof (*lock)))) {
        mg_error_set (err, ENOMEM, "%s: out of memory", dir);
        return NULL;
    }
    lock->fd = -1;
    describe_self (&lock->self);
    if (!(lock->dir = strdup (dir))
        || !(lock->path = durable_path (err, "%s/" DIRLOCK_NAME, dir))) {
        mg_error_set (err, ENOMEM, "%s: out of memory", dir);
        goto error;
    }
    if (take (lock, err) < 0)
        goto error;
    return lock;
error:
    dirlock_release (lock);
    return NULL;
}

const char *dirlock_note (const struct dirlock *lock)
{
    return lock && lock->note.text[0] ? lock->note.text : NULL;
}

int dirlock_check (struct dirlock *lock, struct mg_error *err)
{
    char text[5 * WORD];
    struct writer w;
    int fd, rc, errnum;

    if (!lock)
        return 0;
    fd = open (lock->path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) {
        if (lock->fd >= 0)
            close (lock->fd);
        lock->fd = -1;
        return take (lock, err);
    }
    if (fd < 0)
        return mg_error_set (err, errno, "cannot open %s: %s", lock->path, strerror (errno));
    rc = read_writer (fd, &w);
    errnum = errno;
    close (fd);
    if (rc < 0)
        return mg_error_set (err, errnum, "cannot read %s: %s", lock->path, strerror (errnum));
    if (strcmp (w.id, lock->self.id) == 0)
        return 0;
    return mg_error_set (err, EBUSY, "%s: another run has taken it: %s", lock->dir,
                         writer_text (&w, text));
}

void dirlock_release (struct dirlock *lock)
{
    int saved_errno = errno;

    if (lock) {
        if (lock->fd >= 0) {
            struct writer w;

            read_writer (lock->fd, &w);
            if (strcmp (w.id, lock->self.id) == 0 && has_name (lock->fd, lock->path))
                unlink (lock->path);
            close (lock->fd);
        }
        free (lock->dir);
        free (lock->path);
        free (lock);
    }
    errno = saved_errno;
}
