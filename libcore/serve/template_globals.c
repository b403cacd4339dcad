/* template_globals.c - functions that every template has */

#include <time.h>

#include "libcore/serve/template.h"
#include "libcore/serve/template_render.h"

enum { ARGUMENTS_MAX = 3, RANGE_MAX = 100000 /* of Jinja's sandbox */ };

/* The arguments of a function without names of arguments: how many, or -1. */
static int evaluate_arguments (struct tpl_state *s, struct tpl_frame *frame,
                               const struct tpl_node *call,
                               const struct tpl_value *to[ARGUMENTS_MAX])
{
    int n = 0;

    for (const struct tpl_node *a = call->list; a; a = a->next) {
        if (n == ARGUMENTS_MAX || a->name.size) {
            tpl_fail (s, "too many arguments, or arguments with names");
            return -1;
        }
        to[n] = tpl_evaluate (s, frame, a->arg[0]);
        if (!to[n++])
            return -1;
    }
    return n;
}

static const struct tpl_value *make_range (struct tpl_state *s, int64_t from, int64_t to,
                                           int64_t step)
{
    __int128 count = 0;
    struct tpl_value *v;

    if (step == 0)
        return tpl_fail (s, "range: the step is 0");
    if (step > 0 && to > from)
        count = ((__int128)to - from - 1) / step + 1;
    if (step < 0 && from > to)
        count = ((__int128)from - to - 1) / -(__int128)step + 1;
    if (count > RANGE_MAX)
        return tpl_fail (s, "range: more than %d items", RANGE_MAX);
    v = tpl_seq (s, TPL_RANGE, (size_t)count);
    for (size_t i = 0; v && i < v->seq.count; i++)
        if (!(v->seq.item[i] = tpl_int (s, from + (int64_t)i * step)))
            return NULL;
    return v;
}

static const struct tpl_value *call_range (struct tpl_state *s, struct tpl_frame *frame,
                                           const struct tpl_node *call)
{
    const struct tpl_value *arg[ARGUMENTS_MAX];
    int64_t number[ARGUMENTS_MAX] = { 0, 0, 1 };
    int n = evaluate_arguments (s, frame, call, arg);

    if (n < 0)
        return NULL;
    if (n == 0)
        return tpl_fail (s, "range: an argument is missing");
    for (int i = 0; i < n; i++)
        if (!tpl_is_integer (arg[i], &number[i]))
            return tpl_fail (s, "range: %s is no integer", tpl_kind_name (arg[i]));
    return n == 1 ? make_range (s, 0, number[0], 1)
           : make_range (s, number[0], number[1], number[2]);
}

/* Copy the pairs of a dict. */
static int copy_pairs (struct tpl_state *s, struct tpl_dict *to, const struct tpl_value *from)
{
    if (from->kind != TPL_DICT) {
        tpl_refuse (s, "a dict of %s is not supported", tpl_kind_name (from));
        return -1;
    }
    for (size_t i = 0; i < from->dict->count; i++)
        if (tpl_dict_set (s, to, from->dict->pair[i].key, from->dict->pair[i].value) < 0)
            return -1;
    return 0;
}

/* dict (...) and namespace (...) */
static const struct tpl_value *call_dict (struct tpl_state *s, struct tpl_frame *frame,
                                          const struct tpl_node *call, enum tpl_kind kind)
{
    struct tpl_value *v = tpl_dict_new (s, kind, 4);

    for (const struct tpl_node *a = call->list; v && a; a = a->next) {
        const struct tpl_value *value = tpl_evaluate (s, frame, a->arg[0]), *key = NULL;

        if (!value || (a->name.size && !(key = tpl_string (s, a->name.data, a->name.size))))
            return NULL;
        if (!key && a != call->list)
            return tpl_fail (s, "more than one argument without a name");
        if ((key ? tpl_dict_set (s, v->dict, key, value) : copy_pairs (s, v->dict, value)) < 0)
            return NULL;
    }
    return v;
}

static const struct tpl_value *call_raise (struct tpl_state *s, struct tpl_frame *frame,
                                           const struct tpl_node *call)
{
    const struct tpl_value *arg[ARGUMENTS_MAX];
    struct tpl_text t;

    if (evaluate_arguments (s, frame, call, arg) != 1)
        return tpl_fail (s, "raise_exception: want one text");
    if (tpl_text_of (s, arg[0], &t) < 0)
        return NULL;
    return tpl_fail (s, "%.*s", (int)(t.size < MG_ERROR_MAX ? t.size : MG_ERROR_MAX), t.data);
}

static const struct tpl_value *call_strftime (struct tpl_state *s, struct tpl_frame *frame,
                                              const struct tpl_node *call)
{
    const struct tpl_value *arg[ARGUMENTS_MAX];
    char format[128], text[256];
    time_t now = time (NULL);
    struct tm tm;

    if (evaluate_arguments (s, frame, call, arg) != 1 || arg[0]->kind != TPL_STRING
        || arg[0]->text.size >= sizeof (format) || memchr (arg[0]->text.data, 0, arg[0]->text.size))
        return tpl_fail (s, "strftime_now: want a format of less than %zu bytes",
                         sizeof (format));
    memcpy (format, arg[0]->text.data, arg[0]->text.size);
    format[arg[0]->text.size] = '\0';
    if (!localtime_r (&now, &tm))
        return tpl_fail (s, "strftime_now: no local time");
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    return tpl_string_copy (s, text, strftime (text, sizeof (text), format, &tm));
#pragma GCC diagnostic pop
}

static bool is_name (struct tpl_text name, const char *want)
{
    return tpl_same (name, (struct tpl_text){ want, strlen (want) });
}

bool tpl_is_global (struct tpl_text name)
{
    return is_name (name, "range") || is_name (name, "namespace") || is_name (name, "dict")
           || is_name (name, "raise_exception") || is_name (name, "strftime_now");
}

const struct tpl_value *tpl_call_global (struct tpl_state *s, struct tpl_frame *frame,
                                         const struct tpl_node *call, bool *known)
{
    *known = true;
    if (is_name (call->name, "range"))
        return call_range (s, frame, call);
    if (is_name (call->name, "namespace"))
        return call_dict (s, frame, call, TPL_NAMESPACE);
    if (is_name (call->name, "dict"))
        return call_dict (s, frame, call, TPL_DICT);
    if (is_name (call->name, "raise_exception"))
        return call_raise (s, frame, call);
    if (is_name (call->name, "strftime_now"))
        return call_strftime (s, frame, call);
    *known = false;
    return NULL;
}
