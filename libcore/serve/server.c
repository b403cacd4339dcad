/* server.c - the queue, the places, and what each thread does to a request
 *
 * Works are in one list from server_submit() until the client has released them and no place has a
 * text of theirs; the thread of the engine frees them.  Texts wait in the order of this list.
 */

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "libcore/serve/answer.h"
#include "libcore/serve/completion.h"
#include "libcore/serve/server.h"

struct server_work {
    struct server *of;
    struct server_work *next;
    struct completion completion;
    struct server_client client;
    uint64_t seed;
    double since;    /* when it was submitted */
    int begun;       /* texts that have had a place ... */
    int running;     /* ... and that have it now */
    int status;      /* the status of a failure, 0: none */
    const char *why; /* a constant, or server.why */
    bool released;
    bool told;       /* the failure is in the stream */
};

struct place {
    struct server_work *work; /* NULL: free */
    struct completion_text *text;
};

struct counters {
    int64_t requests, prompt_tokens, generated_tokens;
    int64_t answers[600]; /* by status */
    double seconds;       /* of requests whose texts have ended */
    int64_t ended;
};

struct server {
    struct server_config config;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* a request came, or was released */
    struct server_work *first;
    struct place *place; /* [planned.requests] */
    int waiting;         /* texts */
    int works;
    int texts;           /* of works that are not released */
    bool draining;
    double drained;      /* when the last text has to end */
    double looked;       /* when it was last asked which clients have left */
    uint64_t id, seed, number;
    struct counters counters;
    struct generator_counts passes; /* as the engine's thread saw them last */
    char why[MG_ERROR_MAX];
};

static double now (void)
{
    struct timespec t;

    clock_gettime (CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* --- making --- */

static int init_lock (struct server *s)
{
    pthread_condattr_t attr;
    int rc = pthread_mutex_init (&s->lock, NULL);

    if (rc != 0)
        return rc;
    if ((rc = pthread_condattr_init (&attr)) == 0) {
        pthread_condattr_setclock (&attr, CLOCK_MONOTONIC);
        rc = pthread_cond_init (&s->changed, &attr);
        pthread_condattr_destroy (&attr);
    }
    if (rc != 0)
        pthread_mutex_destroy (&s->lock);
    return rc;
}

static uint64_t random_number (void)
{
    uint64_t number;

    return getrandom (&number, sizeof (number), 0) == sizeof (number) ? number
                                                                      : (uint64_t)time (NULL);
}

struct server *server_create (const struct server_config *config, struct mg_error *err)
{
    struct server *s = calloc (1, sizeof (*s));
    int rc;

    if (!s
        || !(s->place = calloc ((size_t)config->planned.requests, sizeof (*s->place)))) {
        mg_error_set (err, ENOMEM, "out of memory for a server");
        goto error;
    }
    s->config = *config;
    s->seed = random_number (); // is not shown to clients
    s->id = random_number ();
    if ((rc = init_lock (s)) != 0) {
        mg_error_set (err, rc, "a server has no lock: %s", strerror (rc));
        goto error;
    }
    return s;
error:
    if (s)
        free (s->place);
    free (s);
    return NULL;
}

static void free_work (struct server_work *work)
{
    completion_clear (&work->completion);
    free (work);
}

void server_destroy (struct server *s)
{
    int saved_errno = errno;
    struct server_work *next;

    if (!s)
        return;
    for (struct server_work *work = s->first; work; work = next) {
        next = work->next;
        free_work (work);
    }
    pthread_cond_destroy (&s->changed);
    pthread_mutex_destroy (&s->lock);
    free (s->place);
    free (s);
    errno = saved_errno;
}

const struct server_config *server_config_of (const struct server *s)
{
    return &s->config;
}

/* --- submitting --- */

/* Give a prompt its tokens, by a tokenizer that may be NULL.  0, or a status and a text. */
static int tokenize (const struct server_config *c, struct tokenizer *tokenizer,
                     struct serve_prompt *p, struct mg_error *err)
{
    struct token_buffer *ids = &p->ids;

    if (p->is_text && p->text.size > 0) {
        if (!tokenizer) {
            mg_error_set (err, EINVAL, "prompt: this model has no tokenizer, want lists of ids");
            return 400;
        }
        if (tokenizer_encode (tokenizer, p->text.data, p->text.size, ids, err) < 0)
            return errno == ENOMEM ? 500 : 400;
    }
    if (ids->count == 0) {
        if (c->first < 0) {
            mg_error_set (err, EINVAL, "prompt: it is empty, and no token is known that begins or "
                          "ends a document");
            return 400;
        }
        if (token_buffer_reserve (ids, 1, err) < 0)
            return 500;
        ids->ids[ids->count++] = c->first;
    }
    if ((int64_t)ids->count > c->prompt_max) {
        mg_error_set (err, EINVAL, "prompt: %zu tokens, want %" PRId64 " at most", ids->count,
                      c->prompt_max);
        return 400;
    }
    return 0;
}

/* Check what the model and its generator allow.  0, or a status and a text. */
static int check_request (const struct server_config *c, struct serve_request *r,
                          struct mg_error *err)
{
    int rc;

    if (r->model && strcmp (r->model, c->model) != 0) {
        mg_error_set (err, EINVAL, "model: \"%.100s\" is not here, want \"%.100s\"", r->model,
                      c->model);
        return 404;
    }
    if (r->echo && r->logprobs >= 0 && !c->planned.scores) {
        mg_error_set (err, EINVAL, "echo: this server has no log probabilities of prompts");
        return 400;
    }
    if (r->sampling.top_k > c->vocab_size)
        r->sampling.top_k = 0;
    for (size_t i = 0; i < r->num_prompts; i++) {
        if ((rc = tokenize (c, r->chat ? c->bare : c->tokenizer, &r->prompt[i], err)) != 0)
            return rc;
    }
    if (r->max_tokens < 0) { // of a chat
        int64_t left = c->planned.length + 1 - (int64_t)r->prompt[0].ids.count;

        r->max_tokens = left > 1 ? left : 1; // the generator refuses 1 if no position is left
    }
    return 0;
}

/* Check each text as the generator will. */
static int check_texts (const struct server_config *c, const struct completion *completion,
                        struct mg_error *err)
{
    for (int i = 0; i < completion->num_texts; i += completion->request.choices) {
        const struct text_plan_text t = completion_plan (&completion->text[i], 0);
        const struct generator_request request = {
            .prompt = t.prompt, .num_prompt = t.num_prompt, .max_tokens = t.max_tokens,
            .sampling = t.sampling, .scores = t.scores, .top = t.top,
        };

        if (c->generator && generator_check (c->generator, &request, err) < 0)
            return 400;
    }
    return 0;
}

static struct server_work *make_work (struct server *s, struct serve_request *r,
                                      const struct server_client *client, struct mg_error *err)
{
    struct server_work *work = calloc (1, sizeof (*work));
    struct completion *c;

    if (!work) {
        mg_error_set (err, ENOMEM, "out of memory for a request");
        return NULL;
    }
    c = &work->completion;
    work->of = s;
    work->client = *client;
    work->since = now ();
    work->seed = s->seed + 0x9e3779b97f4a7c15 * ++s->number;
    snprintf (c->id, sizeof (c->id), "%s-%016" PRIx64 "%08" PRIx64,
              r->chat ? "chatcmpl" : "cmpl", s->id, s->number);
    c->created = time (NULL);
    c->model = s->config.model;
    c->texts = s->config.texts;
    c->tokenizer = s->config.tokenizer;
    if (completion_init (c, r, err) == 0)
        return work;
    free (work);
    return NULL;
}

/* Check whether there is room for so many texts, with the lock.  0, or a status and a text. */
static int check_room (const struct server *s, int texts, struct mg_error *err)
{
    int max = s->config.queue_max + s->config.planned.requests;

    if (s->draining) {
        mg_error_set (err, ESHUTDOWN, "the server is stopping");
        return 503;
    }
    if (s->waiting + texts > s->config.queue_max) {
        mg_error_set (err, EAGAIN, "the server is busy: %d texts wait, want %d at most", s->waiting,
                      s->config.queue_max);
        return 503;
    }
    if (s->texts + texts > max) {
        mg_error_set (err, EAGAIN, "the server is busy: %d texts wait, run or are not taken yet, "
                      "want %d at most", s->texts, max);
        return 503;
    }
    return 0;
}

/* Add a piece of work to the end of the queue.  The caller holds the lock.  Returns 0, or a status
 * and a text.
 */
static int enqueue (struct server *s, struct server_work *work, struct mg_error *err)
{
    struct server_work **at = &s->first;
    const struct serve_request *r = &work->completion.request;
    int rc = check_room (s, work->completion.num_texts, err);

    if (rc != 0)
        return rc;
    while (*at)
        at = &(*at)->next;
    *at = work;
    s->waiting += work->completion.num_texts;
    s->texts += work->completion.num_texts;
    s->works++;
    s->counters.requests++;
    for (size_t i = 0; i < r->num_prompts; i++)
        s->counters.prompt_tokens += (int64_t)r->prompt[i].ids.count;
    pthread_cond_signal (&s->changed);
    return 0;
}

static int submit (struct server *s, struct serve_request *r, const struct server_client *client,
                   struct server_work **work, struct mg_error *err)
{
    int rc = check_request (&s->config, r, err);

    if (rc != 0)
        return rc;
    pthread_mutex_lock (&s->lock); // before the texts take memory
    rc = check_room (s, (int)r->num_prompts * r->choices, err);
    pthread_mutex_unlock (&s->lock);
    if (rc != 0)
        return rc;
    if (!(*work = make_work (s, r, client, err)))
        return 500;
    if ((rc = check_texts (&s->config, &(*work)->completion, err)) == 0) {
        pthread_mutex_lock (&s->lock);
        rc = enqueue (s, *work, err);
        pthread_mutex_unlock (&s->lock);
    }
    if (rc != 0) {
        free_work (*work);
        *work = NULL;
    }
    return rc;
}

int server_submit (struct server *s, struct serve_request *request,
                   const struct server_client *client, struct server_work **work,
                   struct mg_error *err)
{
    int rc;

    *work = NULL;
    rc = submit (s, request, client, work, err);
    serve_request_clear (request);
    return rc;
}

struct serve_request_limits server_limits (const struct server *s)
{
    return (struct serve_request_limits){ .texts = s->config.queue_max,
                                          .top = s->config.planned.top };
}

/* --- answers --- */

/* The end of a request that failed. */
static int take_failure (struct server_work *work, struct text_buffer *to, int *status)
{
    bool stream = work->completion.request.stream;

    *status = work->status;
    if (work->told)
        return 0;
    work->told = true;
    if (stream && text_buffer_append (to, "data: ", 6, NULL) < 0)
        return -1;
    if (answer_error (to, work->status, work->why, NULL) < 0)
        return -1;
    if (stream)
        return text_buffer_append (to, "\n\ndata: [DONE]\n\n", 16, NULL);
    return text_buffer_append (to, "\n", 1, NULL);
}

int server_take (struct server_work *work, struct text_buffer *to, int *status)
{
    struct server *s = work->of;
    struct completion *c = &work->completion;
    bool whole = false;
    int rc = 1;

    *status = 200;
    pthread_mutex_lock (&s->lock);
    if (work->status != 0)
        rc = take_failure (work, to, status);
    else if (c->request.stream)
        rc = completion_stream (c, to, NULL);
    else
        whole = completion_ended (c);
    pthread_mutex_unlock (&s->lock);
    return whole ? completion_answer (c, to, NULL) : rc; // whose texts nobody else uses any more
}

void server_release (struct server_work *work)
{
    struct server *s;

    if (!work)
        return;
    s = work->of;
    pthread_mutex_lock (&s->lock);
    work->released = true;
    s->texts -= work->completion.num_texts;
    pthread_cond_broadcast (&s->changed);
    pthread_mutex_unlock (&s->lock);
}

bool server_accepts (struct server *s)
{
    bool accepts;

    pthread_mutex_lock (&s->lock);
    accepts = !s->draining;
    pthread_mutex_unlock (&s->lock);
    return accepts;
}

/* --- the engine's thread --- */

/* Let the client know that there is more, or the end. */
static void wake (struct server_work *work)
{
    if (!work->released)
        work->client.ready (work->client.arg);
}

static void fail_work (struct server_work *work, int status, const char *why)
{
    if (work->status != 0 || work->released || completion_ended (&work->completion))
        return;
    work->status = status;
    work->why = why;
    wake (work);
}

/* Texts of a work that still want a place. */
static int waiting_of (const struct server_work *work)
{
    return work->completion.num_texts - work->begun;
}

static void drop_waiting (struct server *s, struct server_work *work)
{
    s->waiting -= waiting_of (work);
    work->begun = work->completion.num_texts;
}

/* Find requests whose clients have gone and whose time is over. */
static void look_at_works (struct server *s, double time)
{
    bool look = time - s->looked >= SERVER_LOOK_SECONDS;

    if (look)
        s->looked = time;
    for (struct server_work *work = s->first; work; work = work->next) {
        bool over = s->config.seconds_max > 0 && time - work->since > s->config.seconds_max;

        if (look && !work->released && work->client.left (work->client.arg))
            fail_work (work, 499, "the client has left");
        else if (over)
            fail_work (work, 408, "the request took longer than this server allows");
        else if (s->draining && time > s->drained)
            fail_work (work, 503, "the server is stopping");
        if (work->status != 0 || work->released)
            drop_waiting (s, work);
    }
}

/* Free the works that nobody needs any more. */
static void free_works (struct server *s)
{
    for (struct server_work **at = &s->first; *at;) {
        struct server_work *work = *at;

        if (!work->released || work->running > 0) {
            at = &work->next;
            continue;
        }
        *at = work->next;
        s->works--;
        free_work (work);
        pthread_cond_broadcast (&s->changed);
    }
}

static void free_place (struct place *place)
{
    place->work->running--;
    *place = (struct place){ .work = NULL };
}

/* End the texts of works that failed or whose clients have gone. */
static int end_texts (struct server *s, struct text_buffer *plan, struct mg_error *err)
{
    for (int i = 0; i < s->config.planned.requests; i++) {
        const struct server_work *work = s->place[i].work;

        if (!work || (work->status == 0 && !work->released))
            continue;
        if (text_plan_end (plan, i, err) < 0)
            return -1;
        free_place (&s->place[i]);
    }
    return 0;
}

/* Begin waiting texts in free places. */
static int begin_texts (struct server *s, struct text_buffer *plan, struct mg_error *err)
{
    struct server_work *work = s->first;

    for (int i = 0; i < s->config.planned.requests; i++) {
        struct text_plan_text text;

        while (work && waiting_of (work) == 0)
            work = work->next;
        if (!work)
            return 0;
        if (s->place[i].work)
            continue;
        s->place[i] = (struct place){ work, &work->completion.text[work->begun] };
        text = completion_plan (s->place[i].text, work->seed);
        if (text_plan_begin (plan, i, &text, err) < 0)
            return -1;
        work->begun++;
        work->running++;
        s->waiting--;
    }
    return 0;
}

static int make_plan (struct server *s, struct text_buffer *plan, struct mg_error *err)
{
    look_at_works (s, now ());
    if (end_texts (s, plan, err) < 0)
        return -1;
    free_works (s);
    if (s->config.generator)
        s->passes = *generator_counts (s->config.generator);
    return begin_texts (s, plan, err);
}

/* Wait for a request, with the lock. */
static void wait_for_work (struct server *s, double seconds)
{
    struct timespec until;
    int64_t ns;

    clock_gettime (CLOCK_MONOTONIC, &until);
    ns = until.tv_nsec + (int64_t)(seconds * 1e9);
    until.tv_sec += (time_t)(ns / 1000000000);
    until.tv_nsec = (long)(ns % 1000000000);
    pthread_cond_timedwait (&s->changed, &s->lock, &until);
}

/* true if a client still waits for texts */
static bool has_open_work (const struct server *s)
{
    for (const struct server_work *work = s->first; work; work = work->next) {
        if (work->status == 0 && !work->released && !completion_ended (&work->completion))
            return true;
    }
    return false;
}

/* plan() of the engine's source. */
static int plan_texts (void *arg, bool idle, struct text_buffer *plan, struct mg_error *err)
{
    struct server *s = arg;
    int rc;

    pthread_mutex_lock (&s->lock);
    rc = make_plan (s, plan, err);
    if (rc == 0 && idle && plan->size == 0 && !s->draining) {
        wait_for_work (s, ENGINE_IDLE_SECONDS);
        rc = make_plan (s, plan, err);
    }
    if (rc == 0)
        rc = !(s->draining && !has_open_work (s));
    pthread_mutex_unlock (&s->lock);
    return rc;
}

/* token() of the engine's source. */
static void take_token (void *arg, int slot, const struct generator_token *token,
                        const char *bytes, size_t size)
{
    struct server *s = arg;
    struct server_work *work;

    pthread_mutex_lock (&s->lock);
    work = s->place[slot].work;
    completion_note (s->place[slot].text, token, bytes, size);
    s->counters.generated_tokens += !token->prompt;
    if (work->completion.lost)
        fail_work (work, 500, "out of memory");
    else if (work->completion.request.stream)
        wake (work);
    pthread_mutex_unlock (&s->lock);
}

/* end() of the engine's source. */
static void take_end (void *arg, int slot, bool stopped)
{
    struct server *s = arg;
    struct server_work *work;

    pthread_mutex_lock (&s->lock);
    work = s->place[slot].work;
    completion_end (s->place[slot].text, stopped);
    free_place (&s->place[slot]);
    if (completion_ended (&work->completion)) {
        s->counters.seconds += now () - work->since;
        s->counters.ended++;
    }
    if (work->completion.request.stream || completion_ended (&work->completion))
        wake (work);
    pthread_mutex_unlock (&s->lock);
}

struct engine_source server_source (struct server *s)
{
    return (struct engine_source){ plan_texts, take_token, take_end, s };
}

void server_drain (struct server *s, double seconds)
{
    pthread_mutex_lock (&s->lock);
    if (!s->draining) {
        s->draining = true;
        s->drained = now () + seconds;
    }
    pthread_mutex_unlock (&s->lock);
}

void server_fail (struct server *s, const char *why)
{
    pthread_mutex_lock (&s->lock);
    s->draining = true;
    snprintf (s->why, sizeof (s->why), "%s", why);
    for (struct server_work *work = s->first; work; work = work->next)
        fail_work (work, 500, s->why);
    pthread_mutex_unlock (&s->lock);
}

void server_wait_released (struct server *s, double seconds)
{
    double until = now () + seconds;
    bool all = false;

    pthread_mutex_lock (&s->lock);
    while (!all && now () < until) {
        all = true;
        for (const struct server_work *work = s->first; work; work = work->next)
            all &= work->released;
        if (!all)
            wait_for_work (s, 0.1);
    }
    pthread_mutex_unlock (&s->lock);
}

/* --- metrics --- */

void server_count (struct server *s, int status)
{
    pthread_mutex_lock (&s->lock);
    if (status >= 0 && status < 600)
        s->counters.answers[status]++;
    pthread_mutex_unlock (&s->lock);
}

static int append_line (struct text_buffer *to, const char *name, const char *kind,
                        const char *help, double value, struct mg_error *err)
{
    char line[512];
    int n = snprintf (line, sizeof (line), "# HELP megatron_%s %s\n# TYPE megatron_%s %s\n"
                      "megatron_%s %.15g\n", name, help, name, kind, name, value);

    return text_buffer_append (to, line, (size_t)n, err);
}

static int append_answers (struct text_buffer *to, const struct counters *c, struct mg_error *err)
{
    static const char head[] = "# HELP megatron_answers_total Answers by their status.\n"
                               "# TYPE megatron_answers_total counter\n";
    char line[80];

    if (text_buffer_append (to, head, sizeof (head) - 1, err) < 0)
        return -1;
    for (int status = 0; status < 600; status++) {
        int n = snprintf (line, sizeof (line), "megatron_answers_total{status=\"%d\"} %" PRId64
                          "\n", status, c->answers[status]);

        if (c->answers[status] > 0 && text_buffer_append (to, line, (size_t)n, err) < 0)
            return -1;
    }
    return 0;
}

int server_metrics (struct server *s, struct text_buffer *to, struct mg_error *err)
{
    struct counters c;
    struct generator_counts p;
    int waiting, running = 0;

    pthread_mutex_lock (&s->lock);
    c = s->counters;
    p = s->passes;
    waiting = s->waiting;
    for (int i = 0; i < s->config.planned.requests; i++)
        running += s->place[i].work != NULL;
    pthread_mutex_unlock (&s->lock);
    const struct {
        const char *name, *kind, *help;
        double value;
    } rows[] = {
        { "requests_total", "counter", "Requests that were accepted.", (double)c.requests },
        { "texts_running", "gauge", "Texts that share passes now.", running },
        { "texts_waiting", "gauge", "Texts that wait for a place.", waiting },
        { "prompt_tokens_total", "counter", "Tokens of prompts.", (double)c.prompt_tokens },
        { "generated_tokens_total", "counter", "Tokens that were generated.",
          (double)c.generated_tokens },
        { "passes_total", "counter", "Passes through the model.", (double)p.passes },
        { "rows_total", "counter", "Rows of these passes.", (double)p.rows },
        { "near_ties_total", "counter", "Generated tokens that rounding could have exchanged.",
          (double)p.near },
        { "request_seconds_sum", "counter", "Seconds of requests whose texts have ended.",
          c.seconds },
        { "request_seconds_count", "counter", "Requests whose texts have ended.",
          (double)c.ended },
    };

    for (size_t i = 0; i < sizeof (rows) / sizeof (rows[0]); i++) {
        if (append_line (to, rows[i].name, rows[i].kind, rows[i].help, rows[i].value, err) < 0)
            return -1;
    }
    return append_answers (to, &c, err);
}
