/* serve.c - megatron serve */

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cmd/cmd.h"
#include "cmd/inference.h"
#include "cmd/option.h"
#include "cmd/serve/http.h"
#include "cmd/serve/keys.h"
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
    const char *model, *host, *key_file;
    bool no_key, no_scores;
    int port, connections, queue, logprobs, client_seconds, request_seconds, drain_seconds;
    int64_t body_max, prompt_max;
};

struct serve_job {
    struct serve_options options;
    struct inference use;
    struct keys keys;
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

#define AT(field) .at = offsetof (struct serve_job, options.field)

static const struct cmd_option options[] = {
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
    { .name = NULL },
};

/* Answers of JSON have the name. */
static int check_utf8 (const char *option, const char *value, struct mg_error *err)
{
    size_t size = strlen (value), at = utf8_find_stray (value, size, 0);

    return at == size ? 0 : mg_error_set (err, EINVAL, "%s: byte %zu is not UTF-8", option, at + 1);
}

/* Of struct inference_command. */
static int check_options (void *arg, struct mg_error *err)
{
    struct serve_job *job = arg;
    struct serve_options *o = &job->options;

    if (o->no_key == (o->key_file != NULL))
        return mg_error_set (err, EINVAL, "want one of --api-key-file FILE and --no-api-key");
    if (!o->model)
        o->model = job->use.load;
    if (check_utf8 ("--load", job->use.load, err) < 0)
        return -1;
    return check_utf8 ("--served-model-name", o->model, err);
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
    const char *load = job->use.load;
    struct tokenizer *tokenizer = job->use.tokens.tokenizer;

    if (!(job->tokenizer_info = model_tokens_config (load, err))
        || chat_find (&job->chat, load, job->tokenizer_info, err) < 0
        || model_tokens_find (&job->bare, load, &job->use.infer.config.data, true, err) < 0)
        return -1;
    if (tokenizer && !(job->fork = tokenizer_fork (tokenizer, err)))
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
    const struct infer *infer = &job->use.infer;
    struct server_config c = {
        .model = o->model,
        .root = job->use.load,
        .started = time (NULL),
        .generator = infer->generator,
        .planned = infer->given.generator,
        .vocab_size = infer->config.model.config.vocab_size,
        .tokenizer = job->fork,
        .bare = job->bare.tokenizer,
        .texts = job->texts,
        .tokenizer_info = job->tokenizer_info,
        .chat = &job->chat,
        .first = job->use.tokens.first,
        .prompt_max = o->prompt_max > 0 ? o->prompt_max : infer->given.generator.length + 1,
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

/* Of struct inference_command. */
static int prepare (void *arg, struct mg_error *err)
{
    struct serve_job *job = arg;

    watch_signals ();
    if (job_rank (job->use.infer.session.job) != 0)
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

/* Of struct inference_command. */
static int serve (void *arg, struct mg_error *err)
{
    struct serve_job *job = arg;
    struct engine_config config = {
        .generator = job->use.infer.generator, .job = job->use.infer.session.job,
        .tokenizer = job->use.tokens.tokenizer, .slots = job->use.requests,
        .ends = &job->use.tokens.ends,
    };
    int rc;

    // when nothing else can fail
    if (inference_agree (&job->use, listen_for_clients (job, err), err) < 0) {
        finish (job, err->text);
        return -1;
    }
    config.source = job->http ? &job->source : NULL;
    rc = say_address (job, err);
    if (rc == 0)
        rc = engine_run (&config, err);
    finish (job, rc < 0 ? err->text : NULL);
    return rc;
}

/* Of struct inference_command. */
static void plan_generator (const void *arg, struct generator_config *config)
{
    const struct serve_options *o = &((const struct serve_job *)arg)->options;

    config->scores = !o->no_scores;
    config->top = o->logprobs;
}

static void clear (struct serve_job *job)
{
    http_stop (job->http);
    server_destroy (job->server);
    token_text_destroy (job->texts);
    tokenizer_destroy (job->fork);
    model_tokens_clear (&job->bare);
    inference_clear (&job->use);
    chat_clear (&job->chat);
    json_decref (job->tokenizer_info);
    keys_clear (&job->keys);
}

int cmd_serve (int argc, char **argv)
{
    static const struct inference_command command = {
        .program = "megatron serve",
        .usage = usage,
        .options = options,
        .check_build = http_check,
        .check = check_options,
        .plan = plan_generator,
        .prepare = prepare,
        .run = serve,
    };
    struct serve_job job = {
        .options = { .host = "127.0.0.1", .port = PORT, .connections = CONNECTIONS, .queue = QUEUE,
                     .logprobs = LOGPROBS, .client_seconds = CLIENT_SECONDS,
                     .drain_seconds = DRAIN_SECONDS, .body_max = BODY_MAX },
    };
    int status = inference_run (&command, &job.use, &job, argc, argv);

    clear (&job);
    return status;
}
