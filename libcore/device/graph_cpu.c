/* graph_cpu.c - a graph as a list of calls
 *
 * While a capture goes on, calls and arguments are in two arrays that grow, and a call knows the
 * offset of its arguments.  instantiate() copies both into one block of exactly their size, in
 * which a call has the address of its arguments.  A replay is one loop over the calls.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/device/device_cpu.h"
#include "libcore/device/graph.h"

/* A kernel's function, or, if that is NULL, a function of other work. */
struct node {
    int (*kernel) (const struct kernels *k, const void *args, struct mg_stream *stream,
                   struct mg_error *err);
    union {
        const struct kernels *kernels;
        int (*work) (const void *args, struct mg_stream *stream, struct mg_error *err);
    };
    struct mg_stream *stream;
    union {
        size_t at; /* of the arguments, while the capture goes on */
        const void *args;
    };
};

struct list {
    struct node *node; /* [room] */
    size_t n, room;
    char *args; /* each call's begin at a multiple of ALIGNMENT */
    size_t used, size;
};

struct cpu_graph {
    size_t n, bytes;
    struct node node[]; /* then the arguments */
};

enum { ALIGNMENT = _Alignof (max_align_t) };

static void *list_begin (struct mg_stream *stream, struct mg_error *err)
{
    struct list *list = calloc (1, sizeof (*list));

    (void)stream;
    if (!list)
        mg_error_set (err, ENOMEM, "graph: out of memory");
    return list;
}

static void list_destroy (void *capture)
{
    struct list *list = capture;

    free (list->node);
    free (list->args);
    free (list);
}

/* Room for one more call with so many bytes of arguments. */
static int grow (struct list *list, size_t bytes)
{
    void *larger;

    if (list->n == list->room) {
        size_t room = list->room ? 2 * list->room : 64;

        if (!(larger = realloc (list->node, room * sizeof (*list->node))))
            return -1;
        list->node = larger;
        list->room = room;
    }
    if (bytes > list->size - list->used) {
        size_t size = 2 * (list->size + bytes);

        if (!(larger = realloc (list->args, size)))
            return -1;
        list->args = larger;
        list->size = size;
    }
    return 0;
}

static int add (struct list *list, struct node node, const void *args, size_t size,
                struct mg_error *err)
{
    size_t padded = (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;

    if (grow (list, padded) < 0)
        return mg_error_set (err, ENOMEM, "graph of %zu calls: out of memory", list->n + 1);
    node.at = list->used;
    memcpy (list->args + list->used, args, size);
    list->used += padded;
    list->node[list->n++] = node;
    return 0;
}

static int list_kernel (void *capture, const struct kernels *k, const struct kern_call *call,
                        struct mg_error *err)
{
    const struct node node = { .kernel = k->ops->run[call->op], .kernels = k,
                               .stream = call->stream };

    return add (capture, node, call->args, kern_op_size (call->op), err);
}

static int list_work (void *capture, struct mg_stream *stream, const struct graph_work *work,
                      struct mg_error *err)
{
    const struct node node = { .work = work->run, .stream = stream };

    return add (capture, node, work->args, work->size, err);
}

static void *list_instantiate (void *capture, struct mg_stream *const *streams, int num_streams,
                               struct mg_error *err)
{
    const struct list *list = capture;
    size_t first = sizeof (struct cpu_graph) + list->n * sizeof (struct node);
    struct cpu_graph *graph;
    char *args;

    (void)streams, (void)num_streams; // each call has its own
    first = (first + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (!(graph = malloc (first + list->used))) {
        mg_error_set (err, ENOMEM, "graph of %zu calls: out of memory", list->n);
        return NULL;
    }
    graph->n = list->n;
    graph->bytes = first + list->used;
    args = (char *)graph + first;
    if (list->n > 0) {
        memcpy (graph->node, list->node, list->n * sizeof (struct node));
        memcpy (args, list->args, list->used);
    }
    for (size_t i = 0; i < graph->n; i++)
        graph->node[i].args = args + list->node[i].at;
    return graph;
}

static int graph_cpu_replay (const void *impl, struct mg_error *err)
{
    const struct cpu_graph *graph = impl;

    for (const struct node *node = graph->node, *end = node + graph->n; node < end; node++) {
        int rc = node->kernel ? node->kernel (node->kernels, node->args, node->stream, err)
                              : node->work (node->args, node->stream, err);

        if (rc < 0)
            return -1;
    }
    return 0;
}

static size_t graph_cpu_bytes (const void *impl)
{
    return ((const struct cpu_graph *)impl)->bytes;
}

const struct graph_ops graph_cpu_ops = {
    .begin = list_begin,
    .kernel = list_kernel,
    .work = list_work,
    .instantiate = list_instantiate,
    .destroy = list_destroy,
    .replay = graph_cpu_replay,
    .destroy_graph = free,
    .bytes = graph_cpu_bytes,
};
