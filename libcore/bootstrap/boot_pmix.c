/* boot_pmix.c - find the other ranks through the launcher's PMIx: a loadable module
 *
 * Only what works everywhere is used: PMIx_Init, _Get, _Put, _Commit, _Fence_nb over all, _Abort,
 * _Finalize.  Slurm's servers hang in fences over a part of the ranks, and in gets of data that no
 * fence has collected.  If a rank has died, the fence of the others hangs for ever, whatever
 * PMIX_TIMEOUT says.  So every fence, and the start, is waited for with a clock of our own.
 */

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <pmix.h>

#include "libcore/base/module.h"
#include "libcore/base/parse.h"
#include "libcore/base/timed.h"
#include "libcore/bootstrap/bootstrap_ops.h"
#include "libcore/bootstrap/nodes.h"

enum { SIZE_LIMIT = 1 << 24, ABORT_GRACE = 2 };

struct pmix {
    const struct bootstrap_host *host;
    double timeout;
    pmix_proc_t self;
    int size;
    struct nodes_placed *placed; /* by logical rank; its node is the launcher's id */
    unsigned round;        /* of exchanges, part of the key */
    pmix_info_t collect;   /* valid while a fence is running */
    bool failed;           /* a fence may still be running: leave all as it is */

    pthread_mutex_t lock;
    pthread_cond_t fenced;
    bool fence_done;
    pmix_status_t fence_status;
};

static int pmix_error (const struct pmix *p, const char *what, pmix_status_t rc,
                       struct mg_error *err)
{
    return p->host->error_set (err, EPROTO, "PMIx: %s: %s", what, PMIx_Error_string (rc));
}

/* Look up a value of a task, or of the job (PMIX_RANK_WILDCARD), in the data that the launcher gave
 * this process at the start.  No message is sent.
 */
static pmix_status_t get (struct pmix *p, pmix_rank_t task, const char *key,
                          pmix_data_type_t type, pmix_value_t **value)
{
    pmix_proc_t proc = p->self;
    pmix_info_t optional;
    pmix_status_t rc;
    bool yes = true;

    *value = NULL;
    proc.rank = task;
    PMIX_INFO_LOAD (&optional, PMIX_OPTIONAL, &yes, PMIX_BOOL);
    rc = PMIx_Get (&proc, key, &optional, 1, value);
    if (rc == PMIX_SUCCESS && (*value)->type != type) {
        PMIX_VALUE_RELEASE (*value);
        *value = NULL;
        rc = PMIX_ERR_TYPE_MISMATCH;
    }
    return rc;
}

static int get_number (struct pmix *p, pmix_rank_t task, const char *key, uint32_t *out,
                       struct mg_error *err)
{
    pmix_value_t *value;
    pmix_status_t rc = get (p, task, key, PMIX_UINT32, &value);

    if (rc != PMIX_SUCCESS)
        return pmix_error (p, key, rc, err);
    *out = value->data.uint32;
    PMIX_VALUE_RELEASE (value);
    return 0;
}

/* A new string, or NULL. */
static char *get_text (struct pmix *p, pmix_rank_t task, const char *key)
{
    pmix_value_t *value;
    char *text;

    if (get (p, task, key, PMIX_STRING, &value) != PMIX_SUCCESS)
        return NULL;
    text = strdup (value->data.string);
    PMIX_VALUE_RELEASE (value);
    return text;
}

/* Node of every task from the launcher's numbers; false if it has not got them all.  Before
 * 25.05 Slurm gave numbers to the tasks of one's own node only, and PMIx 5 answers with the
 * number of one's own node for all others: names come first.
 */
static bool nodes_by_number (struct pmix *p)
{
    for (int task = 0; task < p->size; task++)
        if (get_number (p, (pmix_rank_t)task, PMIX_NODEID, &p->placed[task].node, NULL)
            < 0)
            return false;
    return true;
}

static void correct_own_name (struct pmix *p, char **host, const char *list)
{
    char *peers = get_text (p, PMIX_RANK_WILDCARD, PMIX_LOCAL_PEERS), *made = NULL;
    size_t self = p->self.rank;
    const char *name = nodes_own_name (host, (size_t)p->size, self, peers, list, &made);
    char *copy = name == host[self] ? NULL : strdup (name);

    if (copy) {
        free (host[self]);
        host[self] = copy;
    }
    free (made);
    free (peers);
}

/* Node of every task from host names, which Slurm and Open MPI keep for every task. */
static int nodes_by_name (struct pmix *p, struct mg_error *err)
{
    size_t n = (size_t)p->size;
    char **host = calloc (n, sizeof (*host));
    uint32_t *node = calloc (n, sizeof (*node));
    char *list = get_text (p, PMIX_RANK_WILDCARD, PMIX_NODE_LIST);
    int rc
        = host && node ? 0 : p->host->error_set (err, ENOMEM, "bootstrap: out of memory");

    for (size_t task = 0; rc == 0 && task < n; task++)
        if (!(host[task] = get_text (p, (pmix_rank_t)task, PMIX_HOSTNAME)))
            rc = p->host->error_set (err, EPROTO,
                                     "PMIx: the launcher tells no node of task "
                                     "%zu: neither %s nor %s",
                                     task, PMIX_NODEID, PMIX_HOSTNAME);
    if (rc == 0)
        correct_own_name (p, host, list);
    if (rc == 0 && nodes_number (host, n, list, node) < 0)
        rc = p->host->error_set (err, ENOMEM, "bootstrap: out of memory");
    for (size_t task = 0; host && task < n; task++) {
        if (rc == 0)
            p->placed[task].node = node[task];
        free (host[task]);
    }
    free (host);
    free (node);
    free (list);
    return rc;
}

/* Logical ranks: node by node in the launcher's order, inside a node by task. */
static int place (struct pmix *p, struct mg_error *err)
{
    uint32_t size = 0;

    if (get_number (p, PMIX_RANK_WILDCARD, PMIX_JOB_SIZE, &size, err) < 0)
        return -1;
    if (size < 1 || size > SIZE_LIMIT || p->self.rank >= size)
        return p->host->error_set (err, EPROTO,
                                   "PMIx: this is task %u of %u, want 1 to %d"
                                   " tasks",
                                   p->self.rank, size, SIZE_LIMIT);
    p->size = (int)size;
    if (!(p->placed = calloc (size, sizeof (*p->placed))))
        return p->host->error_set (err, ENOMEM, "bootstrap: out of memory for %u ranks",
                                   size);
    for (int task = 0; task < p->size; task++)
        p->placed[task].task = task;
    if (nodes_by_name (p, err) < 0 && !nodes_by_number (p))
        return -1;
    nodes_sort (p->placed, p->size);
    return 0;
}

/* The job's plugin has told each task of srun its place; it must be the one found here.
 * mpirun's tasks inherit that of the process which started them, which is another's.
 */
static int check_plugin (const struct pmix *p, const struct bootstrap_info *info,
                         struct mg_error *err)
{
    const char *rank_text = getenv ("MEGATRON_RANK");
    const char *size_text = getenv ("MEGATRON_WORLD_SIZE");
    int rank, size;

    if (!rank_text || !size_text || strncmp (p->self.nspace, "slurm.", 6) != 0)
        return 0;
    if (parse_int ("MEGATRON_RANK", rank_text, 0, INT_MAX, &rank, err) < 0
        || parse_int ("MEGATRON_WORLD_SIZE", size_text, 1, INT_MAX, &size, err) < 0)
        return -1;
    if (rank != info->rank || size != info->size)
        return p->host->error_set (err, EPROTO, "task %d is rank %d of %d by PMIx, but"
                                   " MEGATRON_RANK says %d of MEGATRON_WORLD_SIZE %d",
                                   info->task, info->rank, info->size, rank, size);
    return 0;
}

static void boot_destroy (void *impl)
{
    struct pmix *p = impl;
    int saved_errno = errno;

    if (!p->failed) { // else the answer to a fence may still come
        PMIx_Finalize (NULL, 0);
        pthread_cond_destroy (&p->fenced);
        pthread_mutex_destroy (&p->lock);
        free (p->placed);
        free (p);
    }
    errno = saved_errno;
}

/* PMIx_Init waits for the launcher's server for as long as that takes. */
struct start {
    pmix_proc_t self;
    pmix_status_t status;
};

static void run_init (void *arg)
{
    struct start *s = arg;

    s->status = PMIx_Init (&s->self, NULL, 0);
}

static int init_timed (struct pmix *p, struct mg_error *err)
{
    struct start *s = calloc (1, sizeof (*s));
    int rc;

    if (!s)
        return p->host->error_set (err, ENOMEM, "bootstrap: out of memory");
    if (timed_call (run_init, s, p->timeout) < 0) {
        if (errno == ETIMEDOUT) // and the call keeps `s`
            return p->host->error_set (err, ETIMEDOUT, "PMIx_Init: the launcher's server has"
                                       " not answered within %g s", p->timeout);
        rc = p->host->error_set (err, errno, "bootstrap: no thread for PMIx_Init: %s",
                                 strerror (errno));
    } else {
        p->self = s->self;
        rc = s->status == PMIX_SUCCESS ? 0 : pmix_error (p, "PMIx_Init", s->status, err);
    }
    free (s);
    return rc;
}

static void *boot_create (const struct bootstrap_host *host, double timeout,
                          struct bootstrap_info *info, struct mg_error *err)
{
    struct pmix *p = calloc (1, sizeof (*p));

    if (!p) {
        host->error_set (err, ENOMEM, "bootstrap: out of memory");
        return NULL;
    }
    p->host = host;
    p->timeout = timeout;
    if (init_timed (p, err) < 0) {
        free (p);
        return NULL;
    }
    pthread_mutex_init (&p->lock, NULL);
    timed_cond_init (&p->fenced);
    if (place (p, err) < 0)
        goto error;
    info->job = p->self.nspace;
    nodes_fill_info (p->placed, p->size, (int)p->self.rank, info);
    if (check_plugin (p, info, err) < 0)
        goto error;
    return p;
error:
    boot_destroy (p);
    return NULL;
}

/* On a thread of the PMIx library. */
static void on_fence (pmix_status_t status, void *arg)
{
    struct pmix *p = arg;

    pthread_mutex_lock (&p->lock);
    p->fence_status = status;
    p->fence_done = true;
    pthread_cond_signal (&p->fenced);
    pthread_mutex_unlock (&p->lock);
}

/* Wait for on_fence(): false when the clock has run out. */
static bool wait_fence (struct pmix *p)
{
    struct timespec deadline = timed_deadline (p->timeout);
    bool done;

    pthread_mutex_lock (&p->lock);
    while (!p->fence_done) {
        if (pthread_cond_timedwait (&p->fenced, &p->lock, &deadline) == ETIMEDOUT)
            break;
    }
    done = p->fence_done;
    pthread_mutex_unlock (&p->lock);
    return done;
}

static int fence (struct pmix *p, bool collect, struct mg_error *err)
{
    pmix_status_t rc;

    if (p->failed)
        return p->host->error_set (err, EPROTO, "bootstrap: an earlier call has failed");
    PMIX_INFO_LOAD (&p->collect, PMIX_COLLECT_DATA, &collect, PMIX_BOOL);
    p->fence_done = false;
    rc = PMIx_Fence_nb (NULL, 0, &p->collect, 1, on_fence, p);
    if (rc == PMIX_OPERATION_SUCCEEDED)
        return 0;
    p->failed = true; // until it is known to have ended well
    if (rc != PMIX_SUCCESS)
        return pmix_error (p, "PMIx_Fence_nb", rc, err);
    if (!wait_fence (p))
        return p->host->error_set (err, ETIMEDOUT,
                                   "bootstrap: not all %d ranks have come to"
                                   " the same point within %g s",
                                   p->size, p->timeout);
    if (p->fence_status != PMIX_SUCCESS)
        return p->host->error_set (err, ECONNRESET, "PMIx: fence of %d ranks: %s; has one of"
                                   " them ended?", p->size,
                                   PMIx_Error_string (p->fence_status));
    p->failed = false;
    return 0;
}

static void make_key (const struct pmix *p, char key[PMIX_MAX_KEYLEN + 1])
{
    snprintf (key, PMIX_MAX_KEYLEN + 1, "megatron.%u", p->round);
}

static int boot_exchange (void *impl, const void *data, size_t len, struct mg_error *err)
{
    struct pmix *p = impl;
    char key[PMIX_MAX_KEYLEN + 1];
    pmix_value_t value;
    pmix_status_t rc;

    p->round++; // a new key: nobody can take an old value for a new one
    make_key (p, key);
    value.type = PMIX_BYTE_OBJECT;
    value.data.bo.bytes = (char *)data;
    value.data.bo.size = len;
    if ((rc = PMIx_Put (PMIX_GLOBAL, key, &value)) != PMIX_SUCCESS)
        return pmix_error (p, "PMIx_Put", rc, err);
    if ((rc = PMIx_Commit ()) != PMIX_SUCCESS)
        return pmix_error (p, "PMIx_Commit", rc, err);
    return fence (p, true, err);
}

static int boot_peer_data (void *impl, int rank, void *data, size_t max, size_t *len,
                           struct mg_error *err)
{
    struct pmix *p = impl;
    pmix_proc_t proc = p->self;
    pmix_value_t *value = NULL;
    char key[PMIX_MAX_KEYLEN + 1];
    pmix_status_t rc;
    int result = 0;

    make_key (p, key);
    proc.rank = (pmix_rank_t)p->placed[rank].task;
    rc = PMIx_Get (&proc, key, NULL, 0, &value);
    if (rc == PMIX_SUCCESS && value->type != PMIX_BYTE_OBJECT)
        rc = PMIX_ERR_TYPE_MISMATCH;
    if (rc != PMIX_SUCCESS) {
        result = p->host->error_set (err, EPROTO, "PMIx: what rank %d gave: %s%s", rank,
                                     PMIx_Error_string (rc),
                                     rc == PMIX_ERR_NOT_FOUND ? "; has one of them ended?" : "");
    } else {
        *len = value->data.bo.size;
        if (*len > max)
            result = p->host->error_set (err, EMSGSIZE,
                                         "bootstrap: rank %d gave %zu bytes,"
                                         " want at most %zu",
                                         rank, *len, max);
        else
            memcpy (data, value->data.bo.bytes, *len);
    }
    if (value)
        PMIX_VALUE_RELEASE (value);
    return result;
}

static int boot_task_of (void *impl, int rank)
{
    return ((struct pmix *)impl)->placed[rank].task;
}

static int boot_barrier (void *impl, struct mg_error *err)
{
    return fence (impl, false, err);
}

/* End this process if the launcher does not. */
static void *exit_later (void *arg)
{
    sleep (ABORT_GRACE);
    _exit ((int)(intptr_t)arg); /* asked for, and the launcher is not there */
}

static void __attribute__ ((noreturn)) boot_abort (void *impl, int code)
{
    pthread_t thread;

    (void)impl;
    // PMIx_Abort waits for its server, which may be what has died
    if (pthread_create (&thread, NULL, exit_later, (void *)(intptr_t)code) != 0)
        alarm (ABORT_GRACE);
    PMIx_Abort (code, "", NULL, 0);
    for (;;)
        pause (); // the launcher ends all processes within a second
}

static const struct bootstrap_ops boot_pmix_ops = {
    .name = "pmix",
    .create = boot_create,
    .destroy = boot_destroy,
    .exchange = boot_exchange,
    .peer_data = boot_peer_data,
    .task_of = boot_task_of,
    .barrier = boot_barrier,
    .abort = boot_abort,
};

const struct module mg_module = { MODULE_ABI, "boot_pmix", &boot_pmix_ops };
