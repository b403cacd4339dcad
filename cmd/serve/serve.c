/* serve.c - megatron serve */

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cmd/cmd.h"
#include "cmd/open_files.h"
#include "cmd/option.h"
#include "cmd/serve/http.h"
#include "cmd/serve/keys.h"
#include "libcore/infer/model_tokens.h"
#include "libcore/infer/start.h"
#include "libcore/serve/chat.h"
#include "libcore/serve/engine.h"
#include "libcore/serve/server.h"
#include "libcore/text/utf8.h"

enum { PORT = 8000, CONNECTIONS = 256, QUEUE = 1024, BODY_MAX = 4 << 20, LOGPROBS = 5,
       CLIENT_SECONDS = 60, DRAIN_SECONDS = 30, FLUSH_SECONDS = 5 };

static const char usage[]
    = "Usage: megatron serve --load PATH (--api-key-file FILE | --no-api-key) [OPTION...] "
      "[ARGUMENT...]\n"
      "Answer requests for texts by a trained model, over HTTP, in the forms of OpenAI's API.\n"
      "Rank 0 of the job listens.  PATH is a checkpoint's directory, a file of weights or a\n"
      "directory of Hugging Face's.  Other arguments are those of megatron train about layouts,\n"
      "types, devices and tokenizers.\n";

struct serve_options {
    const char *load, *model, *host, *key_file;
    bool no_key, no_scores;
    int port, connections, queue, logprobs, client_seconds, request_seconds, drain_seconds;
    int requests;
    int64_t length, rows, body_max, prompt_max;
};

struct serve_job {
    struct serve_options options;
    struct infer infer;
    struct keys keys;
    struct model_tokens tokens;
    /* Rank 0's, for the thread of the clients. */
    struct tokenizer *fork;
    struct model_tokens bare;
    struct token_text *texts;
    json_t *tokenizer_info;
    struct chat chat;
    struct server *server;
    struct http *http;
    struct engine_source inner; /* the server's, which 'source' wraps */
    struct engine_source source;
    bool draining;
    struct timespec looked; /* for clients that are slow */
};

/* --- options --- */

#define AT(field) .at = offsetof (struct serve_options, field)

static const struct cmd_option options[] = {
    { .name = "load", .arg = "PATH", .help = "the trained model", .set = cmd_set_text, AT (load),
      .required = true },
    { .name = "served-model-name", .arg = "NAME",
      .help = "the name by which clients call it (PATH)", .set = cmd_set_text, AT (model) },
    { .name = "host", .arg = "HOST", .help = "address to listen at (127.0.0.1)",
      .set = cmd_set_text, AT (host) },
    { .name = "port", .arg = "N", .help = "port to listen at (8000); 0: any that is free",
      .set = cmd_set_int, AT (port), .max = 65535 },
    { .name = "api-key-file", .arg = "FILE", .help = "keys of clients, one on each line",
      .set = cmd_set_text, AT (key_file) },
    { .name = "no-api-key", .help = "everyone who can connect may ask", .set = cmd_set_flag,
      AT (no_key) },
    { .name = "max-connections", .arg = "N", .help = "connections at a time (256)",
      .set = cmd_set_int, AT (connections), .min = 1, .max = 1 << 16 },
    { .name = "max-queue", .arg = "N", .help = "texts that wait (1024)", .set = cmd_set_int,
      AT (queue), .min = 1, .max = 1 << 20 },
    { .name = "max-body-bytes", .arg = "N", .help = "bytes of a request (4194304)",
      .set = cmd_set_int64, AT (body_max), .min = 1, .max = 1 << 30 },
    { .name = "max-prompt-tokens", .arg = "N",
      .help = "tokens of a prompt (those that the positions take)", .set = cmd_set_int64,
      AT (prompt_max), .min = 1, .max = INT32_MAX },
    { .name = "max-logprobs", .arg = "N", .help = "alternatives of a token, at most (5)",
      .set = cmd_set_int, AT (logprobs), .max = GENERATOR_TOP_MAX },
    { .name = "no-prompt-logprobs", .help = "save the memory for log probabilities of prompts",
      .set = cmd_set_flag, AT (no_scores) },
    { .name = "client-seconds", .arg = "N",
      .help = "for a request to arrive, and for a client that takes nothing (60)",
      .set = cmd_set_int, AT (client_seconds), .min = 1, .max = 1 << 20 },
    { .name = "request-seconds", .arg = "N", .help = "for an answer (0: no limit)",
      .set = cmd_set_int, AT (request_seconds), .max = 1 << 30 },
    { .name = "drain-seconds", .arg = "N",
      .help = "for running requests to end, after SIGTERM (30)", .set = cmd_set_int,
      AT (drain_seconds), .max = 1 << 30 },
    { .name = "inference-max-requests", .arg = "N", .help = "texts that share passes (8)",
      .set = cmd_set_int, AT (requests), .min = 1, .max = GENERATOR_REQUESTS_MAX },
    { .name = "inference-max-seq-length", .arg = "N",
      .help = "positions of a text (those of the model, 2560 at most)", .set = cmd_set_int64,
      AT (length), .min = 1, .max = INT32_MAX },
    { .name = "inference-dynamic-batching-max-tokens", .arg = "N",
      .help = "rows of a pass; longer prompts go in pieces (512)", .set = cmd_set_int64, AT (rows),
      .min = 1, .max = INT32_MAX },
    { .name = NULL },
};

/* Answers of JSON have the name. */
static int check_utf8 (const char *option, const char *value, struct mg_error *err)
{
    size_t size = strlen (value), at = utf8_find_stray (value, size, 0);

    return at == size ? 0 : mg_error_set (err, EINVAL, "%s: byte %zu is not UTF-8", option, at + 1);
}

static int read_options (struct serve_options *o, int argc, char **argv, char **own, char **other,
                         int *num_other, struct mg_error *err)
{
    const struct cmd_option_table table = { options, o };
    int n;

    *o = (struct serve_options){
        .host = "127.0.0.1", .port = PORT, .connections = CONNECTIONS, .queue = QUEUE,
        .logprobs = LOGPROBS, .client_seconds = CLIENT_SECONDS, .drain_seconds = DRAIN_SECONDS,
        .requests = INFER_REQUESTS, .rows = INFER_ROWS, .body_max = BODY_MAX,
    };
    n = cmd_options_deal (&table, argc, argv, own, other, num_other);
    if (cmd_options_read (&table, 1, n, own, err) < 0
        || cmd_options_check (&table, 1, n, own, err) < 0)
        return -1;
    if (o->no_key == (o->key_file != NULL))
        return mg_error_set (err, EINVAL, "want one of --api-key-file FILE and --no-api-key");
    if (!o->model)
        o->model = o->load;
    if (check_utf8 ("--load", o->load, err) < 0)
        return -1;
    return check_utf8 ("--served-model-name", o->model, err);
}

static void print_help (void)
{
    const struct cmd_option_table table = { options, NULL };

    fputs (usage, stdout);
    cmd_options_help (&table, 1);
}

/* --- signals --- */

static volatile sig_atomic_t stop_wanted;

static void want_stop (int number)
{
    (void)number;
    stop_wanted = 1;
}

/* From here on, SIGTERM and the first SIGINT end the server.  Ranks other than 0 go on until rank 0
 * has told them.
 */
static void watch_signals (void)
{
    struct sigaction action = { .sa_handler = want_stop, .sa_flags = SA_RESTART }, before;

    sigemptyset (&action.sa_mask);
    sigaction (SIGTERM, &action, NULL);
    action.sa_flags |= SA_RESETHAND;
    if (sigaction (SIGINT, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
        sigaction (SIGINT, &action, NULL);
}

/* --- the source of texts --- */

/* Passes may be many in a second. */
static void close_slow (struct serve_job *job)
{
    struct timespec t;

    clock_gettime (CLOCK_MONOTONIC, &t);
    if ((double)(t.tv_sec - job->looked.tv_sec) + 1e-9 * (double)(t.tv_nsec - job->looked.tv_nsec)
        < SERVER_LOOK_SECONDS)
        return;
    job->looked = t;
    http_close_slow (job->http);
}

static int plan (void *arg, bool idle, struct text_buffer *to, struct mg_error *err)
{
    struct serve_job *job = arg;

    if (stop_wanted && !job->draining) {
        job->draining = true;
        server_drain (job->server, job->options.drain_seconds);
        http_stop_listening (job->http);
    }
    close_slow (job);
    return job->inner.plan (job->inner.arg, idle, to, err);
}

static void token (void *arg, int slot, const struct generator_token *t, const char *bytes,
                   size_t size)
{
    struct serve_job *job = arg;

    job->inner.token (job->inner.arg, slot, t, bytes, size);
}

static void end (void *arg, int slot, bool stopped)
{
    struct serve_job *job = arg;

    job->inner.end (job->inner.arg, slot, stopped);
}

/* --- set-up --- */

/* Rank 0's tokenizers, for the thread of the clients. */
static int make_tokenizers (struct serve_job *job, struct mg_error *err)
{
    const struct serve_options *o = &job->options;

    if (!(job->tokenizer_info = model_tokens_config (o->load, err))
        || chat_find (&job->chat, o->load, job->tokenizer_info, err) < 0
        || model_tokens_find (&job->bare, o->load, &job->infer.config.data, true, err) < 0)
        return -1;
    if (job->tokens.tokenizer && !(job->fork = tokenizer_fork (job->tokens.tokenizer, err)))
        return -1;
    if (job->fork && !json_object_get (job->tokenizer_info, "tokenizer_class"))
        json_object_set_new (job->tokenizer_info, "tokenizer_class",
                             json_string (job->fork->ops->name));
    job->texts = token_text_create (job->fork, err);
    return job->texts ? 0 : -1;
}

static int make_server (struct serve_job *job, struct mg_error *err)
{
    const struct serve_options *o = &job->options;
    struct server_config c = {
        .model = o->model,
        .root = o->load,
        .started = time (NULL),
        .generator = job->infer.generator,
        .planned = job->infer.given.generator,
        .vocab_size = job->infer.config.model.config.vocab_size,
        .tokenizer = job->fork,
        .bare = job->bare.tokenizer,
        .texts = job->texts,
        .tokenizer_info = job->tokenizer_info,
        .chat = &job->chat,
        .first = job->tokens.first,
        .prompt_max = o->prompt_max > 0 ? o->prompt_max : job->infer.given.generator.length + 1,
        .queue_max = o->queue,
        .seconds_max = o->request_seconds,
    };

    job->server = server_create (&c, err);
    return job->server ? 0 : -1;
}

/* Rank 0's. */
static int listen_for_clients (struct serve_job *job, struct mg_error *err)
{
    const struct serve_options *o = &job->options;
    const struct http_config c = {
        .host = o->host,
        .port = o->port,
        .connections = o->connections,
        .body_max = (size_t)o->body_max,
        .seconds = o->client_seconds,
        .keys = o->no_key ? NULL : &job->keys,
        .server = job->server,
    };

    if (!job->server)
        return 0;
    job->http = http_start (&c, err);
    return job->http ? 0 : -1;
}

/* A file that cannot be read is a wrong command line. */
static int read_keys (struct serve_job *job, struct mg_error *err)
{
    if (!job->options.key_file || keys_read (&job->keys, job->options.key_file, err) == 0)
        return 0;
    if (errno != ENOMEM)
        errno = EINVAL;
    return -1;
}

static int prepare (struct serve_job *job, struct mg_error *err)
{
    if (model_tokens_find (&job->tokens, job->options.load, &job->infer.config.data, false, err)
        < 0)
        return -1;
    if (job_rank (job->infer.session.job) != 0)
        return 0;
    if (read_keys (job, err) < 0 || make_tokenizers (job, err) < 0 || make_server (job, err) < 0)
        return -1;
    job->inner = server_source (job->server);
    job->source = (struct engine_source){ plan, token, end, job };
    return 0;
}

/* Nobody could find a server whose address is not said. */
static int say_address (const struct serve_job *job, struct mg_error *err)
{
    const char *host = job->options.host;
    bool colons = strchr (host, ':') != NULL;

    if (!job->http)
        return 0;
    if (job->chat.faulty)
        fprintf (stderr, "megatron serve: %s\n", job->chat.why.text);
    printf ("%s is served at http://%s%s%s:%d\n", job->options.model, colons ? "[" : "", host,
            colons ? "]" : "", http_port (job->http));
    if (fflush (stdout) == 0)
        return 0;
    return mg_error_set (err, errno, "the address cannot be printed: %s", strerror (errno));
}

/* --- serving --- */

/* Agree with all ranks on a step that failed on this one or did not. */
static int agree (struct serve_job *job, int rc, struct mg_error *err)
{
    job->infer.misused = rc < 0 && errno == EINVAL;
    return accord_agree (&job->infer.session.accord, rc, err);
}

/* Let clients take their answers, and stop listening. */
static void finish (struct serve_job *job, const char *why)
{
    int saved_errno = errno;

    if (!job->http)
        return;
    if (why)
        server_fail (job->server, why);
    server_wait_released (job->server, FLUSH_SECONDS);
    http_stop (job->http);
    job->http = NULL;
    errno = saved_errno;
}

static int serve (struct serve_job *job, struct mg_error *err)
{
    struct engine_config config = {
        .generator = job->infer.generator, .job = job->infer.session.job,
        .slots = job->options.requests, .ends = &job->tokens.ends,
    };
    int rc;

    infer_describe (&job->infer);
    watch_signals ();
    if (agree (job, prepare (job, err), err) < 0)
        return -1;
    if (agree (job, listen_for_clients (job, err), err) < 0) { // when nothing else can fail
        finish (job, err->text);
        return -1;
    }
    config.tokenizer = job->tokens.tokenizer;
    config.source = job->http ? &job->source : NULL;
    rc = say_address (job, err);
    if (rc == 0)
        rc = engine_run (&config, err);
    finish (job, rc < 0 ? err->text : NULL);
    return rc;
}

static int begin (struct serve_job *job, int argc, char **argv, struct mg_error *err)
{
    const struct serve_options *o = &job->options;
    const struct infer_config config = {
        .program = "megatron serve",
        .load = o->load,
        .generator = { .requests = o->requests, .length = o->length, .rows = o->rows,
                       .scores = !o->no_scores, .top = o->logprobs },
        .argc = argc,
        .argv = argv,
        .errors = stderr,
    };

    return infer_start (&job->infer, &config, err);
}

static void clear (struct serve_job *job)
{
    http_stop (job->http);
    server_destroy (job->server);
    token_text_destroy (job->texts);
    tokenizer_destroy (job->fork);
    model_tokens_clear (&job->bare);
    model_tokens_clear (&job->tokens);
    chat_clear (&job->chat);
    json_decref (job->tokenizer_info);
    keys_clear (&job->keys);
}

int cmd_serve (int argc, char **argv)
{
    char **own = calloc (2 * (size_t)argc + 2, sizeof (*own)), **other = own + argc + 1;
    struct serve_job job = { .draining = false };
    struct mg_error err = { "" };
    int num_other = 0, status = 0;

    for (int i = 1; i < argc; i++) {
        if (strcmp (argv[i], "--help") == 0 || strcmp (argv[i], "-h") == 0) {
            free (own);
            print_help ();
            return 0;
        }
    }
    signal (SIGPIPE, SIG_IGN);
    open_files_raise ();
    if (!own) {
        fprintf (stderr, "megatron serve: out of memory\n");
        return 1;
    }
    if (read_options (&job.options, argc, argv, own, other, &num_other, &err) < 0) {
        fprintf (stderr, "megatron serve: %s; see megatron serve --help\n", err.text);
        status = 2;
    } else if (http_check (&err) < 0) {
        fprintf (stderr, "megatron serve: %s\n", err.text);
        status = 2;
    } else {
        if (begin (&job, num_other, other, &err) < 0 || serve (&job, &err) < 0)
            status = infer_report (&job.infer, &err);
        infer_leave (&job.infer);
    }
    clear (&job);
    free (own);
    return status;
}
