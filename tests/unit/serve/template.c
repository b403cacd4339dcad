/* Chat templates: texts that Jinja has, what is refused and on which line, and limits. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/serve/template.h"
#include "tests/tap/tap.h"

static const char variables[] =
    "{\"messages\": [{\"role\": \"user\", \"content\": \" Hi \"},"
    " {\"role\": \"assistant\", \"content\": \"a<b>'\\\"\"}],"
    " \"add_generation_prompt\": true, \"bos_token\": \"<s>\", \"n\": 3, \"f\": 2.5, \"no\": null,"
    " \"text\": \"h\\u00e9llo w\\u00f6rld\", \"tools\": [{\"name\": \"f\", \"args\": {\"b\": 1,"
    " \"a\": [true, null, 1.0, \"\\n\\u00e9\"]}}], \"empty\": {}, \"list\": [3, 1, 2]}";

/* Render with these variables: 0, or -1 and a text; 'out' is a string of C. */
static int render (const char *text, struct text_buffer *out, struct mg_error *err)
{
    json_t *values = json_loads (variables, 0, NULL);
    struct chat_template *t = chat_template_create (text, strlen (text), err);
    int rc = t ? chat_template_render (t, values, out, err) : -1, errnum = errno;

    json_decref (values);
    chat_template_destroy (t);
    if (rc == 0)
        rc = text_buffer_append (out, "", 1, err);
    else
        errno = errnum;
    return rc;
}

static const struct {
    const char *text, *want;
} rows[] = {
    /* texts and trims */
    { "", "" },
    { "a\n", "a" },
    { "a\r\nb\rc\n\n", "a\nb\nc\n" },
    { "a{# x #}\nb", "ab" },
    { "a {#- x -#} \n b", "ab" },
    { "  {% if true %}\n  x\n  {% endif %}\ny", "  x\ny" },
    { "a  {%- if true -%}  x  {%- endif %}\n y", "ax y" },
    { "  {%+ if true %}\nx{% endif +%}\ny", "  x\ny" },
    { "x  {{- ' a ' -}}  y", "x a y" },
    { "{{ {'a': {'b': 1}} }}", "{'a': {'b': 1}}" },
    { "{{ '}}' ~ \"%}\" }}", "}}%}" },
    /* literals */
    { "{{ 'a\\n\\t\\\\\\'\\x41\\u00e9\\q' }}", "a\n\t\\'A\xc3\xa9\\q" },
    { "{{ 'a' 'b' }}", "ab" },
    { "{{ [1, 2.0, true, none, 'x\"', \"y'\", (1,), ()] }}",
      "[1, 2.0, True, None, 'x\"', \"y'\", (1,), ()]" },
    { "{{ 1e16 }} {{ 1e15 }} {{ 1e-5 }} {{ 0.0001 }} {{ 0.1 }}",
      "1e+16 1000000000000000.0 1e-05 0.0001 0.1" },
    { "{{ 5.9604644775390625e-08 }} {{ 2.0**-44 }} {{ 9.5367431640625e-07 }} {{ 1.0 / 3 }}",
      "5.960464477539063e-08 5.684341886080802e-14 9.5367431640625e-07 0.3333333333333333" },
    { "{{ missing }}{{ no }}", "None" },
    /* operators */
    { "{{ 1 + 2 * 3 ** 2 - 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }}", "16 -4 2 3.5" },
    { "{{ 2 ** -1 }} {{ -2 ** 2 }} {{ 1 ~ 'a' ~ 2.0 }} {{ 'ab' * 2 }}", "0.5 4 1a2.0 abab" },
    { "{{ 1 < 2 < 3 }} {{ 1 == 1.0 == true }} {{ 'a' < 'b' }} {{ [1, 2] < [1, 3] }}",
      "True True True True" },
    { "{{ 'l' in text }} {{ 5 not in list }} {{ 'name' in tools[0] }}", "True True True" },
    { "{{ 0 or 'x' }} {{ 1 and '' }}|{{ not 0 }} {{ 'a' if n > 2 else 'b' }}{{ 1 if false }}",
      "x |True a" },
    { "{{ text[1] }} {{ text[-1] }} {{ text[1:4] }} {{ text[::-1] }} {{ list[5] }}",
      "\xc3\xa9 d \xc3\xa9ll dlr\xc3\xb6w oll\xc3\xa9h " },
    { "{{ list[::2] }} {{ list[:-1] }} {{ list[-2:] }} {{ list[5:0:-2] }}",
      "[3, 2] [3, 1] [1, 2] [2]" },
    { "{{ messages[0].role }}{{ messages[0]['content'] }}{{ messages[0].none_such }}", "user Hi " },
    /* methods */
    { "{{ ' a '.strip() }}|{{ 'xxa'.lstrip('x') }}|{{ 'ab\\n'.rstrip() }}", "a|a|ab" },
    { "{{ 'a b  c'.split() }} {{ 'a,b,,c'.split(',') }} {{ 'a,b,c'.split(',', 1)[-1] }}",
      "['a', 'b', 'c'] ['a', 'b', '', 'c'] b,c" },
    { "{{ 'abc'.startswith('ab') }} {{ 'abc'.endswith('d') }} {{ text.find('w') }}",
      "True False 6" },
    { "{{ 'aBc dEf'.title() }} {{ 'aBc'.upper() }} {{ 'aBc'.capitalize() }}", "Abc Def ABC Abc" },
    { "{{ 'aaa'.replace('a', 'b', 2) }} {{ 'ab'.replace('', '-') }} {{ '-'.join(['a', 'b']) }}",
      "bba -a-b- a-b" },
    { "{% for k, v in tools[0].items() %}{{ k }}{% endfor %} {{ tools[0].get('x', 'y') }}",
      "nameargs y" },
    { "{{ tools[0].keys()|list }} {{ empty.values()|list }}", "['name', 'args'] []" },
    /* filters */
    { "{{ ' a '|trim }} {{ list|length }} {{ list|join('-') }} {{ list|first }}{{ list|last }}",
      "a 3 3-1-2 32" },
    { "{{ tools|tojson }}",
      "[{\"name\": \"f\", \"args\": {\"b\": 1, \"a\": [true, null, 1.0, \"\\n\xc3\xa9\"]}}]" },
    { "{{ {'a': [1], 'b': {}}|tojson(indent=2) }}", "{\n  \"a\": [\n    1\n  ],\n  \"b\": {}\n}" },
    { "{{ messages[1].content|tojson }}", "\"a<b>'\\\"\"" },
    { "{{ missing|default('x') }}{{ ''|default('y', true) }}{{ no|default('z') }}", "xyNone" },
    { "{{ '12'|int + 1 }} {{ 'x'|int(7) }} {{ 2.7|int }} {{ 5|string ~ '' }}", "13 7 2 5" },
    { "{{ messages|map(attribute='role')|list }}", "['user', 'assistant']" },
    { "{{ messages|selectattr('role', 'equalto', 'user')|list|length }}", "1" },
    { "{{ messages|rejectattr('role', 'eq', 'user')|map(attribute='role')|join }}", "assistant" },
    { "{{ 'a\\nb\\n\\nc'|indent(2) }} {{ 'a\\nb'|indent(1, true) }}", "a\n  b\n\n  c  a\n b" },
    { "{{ {'b': 1, 'A': 2}|dictsort }} {{ 'abc'|reverse }}", "[('A', 2), ('b', 1)] cba" },
    { "{{ 'a-b c'|title }} {{ 'x'|safe }} {{ 'abc'|replace('b', 'x') }}", "A-B C x axc" },
    /* tests */
    { "{{ x is defined }} {{ n is defined }} {{ no is none }} {{ n is not string }}",
      "False True True True" },
    { "{{ empty is mapping }} {{ list is iterable }} {{ 'a' is sequence }} {{ f is number }}",
      "True True True True" },
    { "{{ n is odd }} {{ n is equalto 3 }} {{ n is in [1, 3] }} {{ true is boolean }}",
      "True True True True" },
    /* statements */
    { "{% for m in messages %}{{ loop.index }}{{ m.role }}{{ ',' if not loop.last }}{% endfor %}",
      "1user,2assistant" },
    { "{% for x in list if x > 1 %}{{ loop.index0 }}{{ x }}{{ loop.length }}{% endfor %}",
      "032122" },
    { "{% for x in [] %}a{% else %}b{% endfor %}", "b" },
    { "{% for x in [1, 2] %}{% continue %}{% else %}b{% endfor %}", "b" },
    { "{% for x in [1, 2] %}{% if x == 2 %}{% break %}{% endif %}{% else %}b{% endfor %}", "" },
    { "{% for x in list %}{{ loop.previtem }}{{ x }}{{ loop.nextitem }}{{ loop.revindex }},"
      "{% endfor %}", "313,3122,121," },
    { "{% for x in range(9) %}{% if x == 2 %}{% continue %}{% elif x == 4 %}{% break %}{% endif %}"
      "{{ x }}{% endfor %}", "013" },
    { "{% set x = 1 %}{% for y in list %}{% set x = y %}{% endfor %}{{ x }}", "1" },
    { "{% set ns = namespace(x=1) %}{% for y in list %}{% set ns.x = ns.x + y %}{% endfor %}"
      "{{ ns.x }}", "7" },
    { "{% set a, b = 1, 2 %}{{ b }}{% set c %}x{{ a }}{% endset %}{{ c }}", "2x1" },
    { "{% macro m(a, b='y') %}{{ a }}{{ b }};{% endmacro %}{{ m(1) }}{{ m(b=2, a=3) }}", "1y;32;" },
    { "{% for i in [1, 2] %}{% set x %}a{% continue %}{% endset %}b{% else %}c{% endfor %}", "c" },
    { "{{ false|map(attribute='x')|list }}{{ 0|selectattr('x')|list }}", "[][]" },
    { "{% generation %}x{% endgeneration %}", "x" },
    { "{{ range(3)|list }} {{ range(4, 0, -2)|list }} {{ dict(a=1) }}",
      "[0, 1, 2] [4, 2] {'a': 1}" },
    { "{% if strftime_now is defined %}{{ strftime_now('%%') }}{% endif %}", "%" },
    { "{% for (a, b) in [(1, 2)] %}{{ a + b }}{% endfor %}", "3" },
    /* a template in the form of ChatML */
    { "{% for message in messages %}\n{{ '<|im_start|>' + message['role'] + '\\n' + "
      "message['content'] + '<|im_end|>' + '\\n' }}\n{% endfor %}\n"
      "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}\n",
      "<|im_start|>user\n Hi <|im_end|>\n\n<|im_start|>assistant\na<b>'\"<|im_end|>\n\n"
      "<|im_start|>assistant\n" },
};

static void test_texts (void)
{
    for (size_t i = 0; i < sizeof (rows) / sizeof (rows[0]); i++) {
        struct text_buffer out = { .data = NULL };
        struct mg_error err = { "" };

        ok (render (rows[i].text, &out, &err) == 0, "%s", rows[i].text);
        if (err.text[0])
            diag ("%s", err.text);
        is_str (out.size ? out.data : NULL, rows[i].want, "its text");
        text_buffer_clear (&out);
    }
}

static const struct {
    const char *text;
    int errnum;
    const char *want; /* in the error */
} errors[] = {
    /* when it is read */
    { "a\n\n{{ x", EINVAL, "line 3: {{ does not end" },
    { "a\n{% if x", EINVAL, "line 2: {% does not end" },
    { "{# x", EINVAL, "line 1: the comment" },
    { "{{ 'x", EINVAL, "line 1: the string" },
    { "{% if x %}\n{% for y in z %}", EINVAL, "line 2: \"endfor\" is missing" },
    { "{% if x %}{% endfor %}", EINVAL, "\"endif\" is missing" },
    { "{% endif %}", EINVAL, "\"endif\" without" },
    { "{% if %}{% endif %}", EINVAL, "a value is missing" },
    { "{{ }}", EINVAL, "a value is missing" },
    { "{{ (1 }}", EINVAL, "line 1" },
    { "{{ 1) }}", EINVAL, "a bracket" },
    { "{{ 1 2 }}", EINVAL, "\"}}\" is missing" },
    { "{{ 99999999999999999999 }}", EINVAL, "64 bits" },
    { "{{ '\\ud800' }}", EINVAL, "an escape" },
    { "{% break %}", EINVAL, "outside" },
    { "{% for x in y %}{% macro m() %}{% break %}{% endmacro %}{% endfor %}", EINVAL, "outside" },
    { "\n{% include 'x' %}", ENOTSUP, "line 2: the tag \"include\"" },
    { "\n\n{{ x|wordwrap }}", ENOTSUP, "line 3: the filter \"wordwrap\"" },
    { "{{ x|trim.x }}", ENOTSUP, "the filter \"trim.\"" },
    { "{{ x is sameas y }}", ENOTSUP, "the test \"sameas\"" },
    { "{{ x.append(1) }}", ENOTSUP, "the method \"append\"" },
    { "{{ f(1) }}", ENOTSUP, "the function \"f\"" },
    { "{{ x.__class__ }}", ENOTSUP, "__class__" },
    { "{{ x|trim(1, 2) }}", ENOTSUP, "trim: 2 arguments" },
    { "{{ x|tojson(x=2) }}", ENOTSUP, "tojson: argument x" },
    { "{{ x|replace('a') }}", EINVAL, "replace: argument new" },
    { "{{ (x|safe) + y }}", ENOTSUP, "safe" },
    { "{{ x|map('upper') }}", ENOTSUP, "map with a filter" },
    { "{% for x in y recursive %}{% endfor %}", ENOTSUP, "recursive" },
    /* when it is rendered */
    { "\n{{ missing.x }}", EINVAL, "line 2: attribute x of an undefined" },
    { "{{ raise_exception('no ' ~ n) }}", EINVAL, "line 1: no 3" },
    { "{{ 'a' + 1 }}", EINVAL, "+ of a string and an integer" },
    { "{{ 9223372036854775807 + 1 }}", ENOTSUP, "64 bits" },
    { "{{ 1 // 0 }}", EINVAL, "zero" },
    { "{{ no.strip() }}", EINVAL, "a method of strings on none" },
    { "{{ messages.append }}", ENOTSUP, "append" },
    { "{{ text.upper() }}", ENOTSUP, "U+00E9" },
    { "{{ list|map(attribute='x') }}", ENOTSUP, "generator" },
    { "{% set n.x = 1 %}", EINVAL, "cannot be set" },
    { "{% set a, b = list %}", EINVAL, "3 values for 2 names" },
    { "{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}", EINVAL, "m: too many" },
    /* limits */
    { "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}", E2BIG, "" },
    { "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", E2BIG, "deep" },
    { "{% set ns = namespace(x='0123456789abcdef') %}{% for i in range(99) %}"
      "{% set ns.x = ns.x + ns.x %}{% endfor %}", E2BIG, "memory" },
    { "{% for i in range(99999) %}{{ 'x' * 1000 }}{% endfor %}", E2BIG, "" },
    { "{% set ns = namespace(x=[]) %}{% for i in range(9999) %}{% set ns.x = [ns.x] %}{% endfor %}"
      "{{ ns.x }}", E2BIG, "deep" },
    { "{{ range(100001) }}", EINVAL, "range" },
};

static void test_errors (void)
{
    for (size_t i = 0; i < sizeof (errors) / sizeof (errors[0]); i++) {
        struct text_buffer out = { .data = NULL };
        struct mg_error err = { "" };
        int rc = render (errors[i].text, &out, &err), errnum = errno;

        ok (rc < 0 && errnum == errors[i].errnum && out.size == 0, "%s", errors[i].text);
        if (!ok (strstr (err.text, errors[i].want), "its error"))
            diag ("%d: %s", errnum, err.text);
        text_buffer_clear (&out);
    }
}

/* A template that nests a text 'count' times, between what stands before and after. */
static void test_nested (const char *before, const char *begin, const char *end, const char *after)
{
    struct text_buffer text = { .data = NULL }, out = { .data = NULL };
    struct mg_error err = { "" };
    int count = 5000;

    text_buffer_append (&text, before, strlen (before), NULL);
    for (int i = 0; i < count; i++)
        text_buffer_append (&text, begin, strlen (begin), NULL);
    text_buffer_append (&text, "1", 1, NULL);
    for (int i = 0; i < count; i++)
        text_buffer_append (&text, end, strlen (end), NULL);
    text_buffer_append (&text, after, strlen (after) + 1, NULL);
    ok (render (text.data, &out, &err) < 0 && errno == E2BIG && strstr (err.text, "nested"),
        "%d times %s1%s", count, begin, end);
    text_buffer_clear (&text);
    text_buffer_clear (&out);
}

static void test_source (void)
{
    struct mg_error err = { "" };
    char *large = calloc (1, TEMPLATE_BYTES_MAX + 1);

    if (!large)
        bail_out ("out of memory");
    memset (large, 'x', TEMPLATE_BYTES_MAX + 1);
    ok (!chat_template_create (large, TEMPLATE_BYTES_MAX + 1, &err) && errno == EINVAL,
        "a template beyond the limit");
    ok (!chat_template_create ("\xff", 1, &err) && errno == EINVAL, "a stray byte");
    chat_template_destroy (NULL);
    free (large);
    test_nested ("", "{% if 1 %}", "{% endif %}", "");
    test_nested ("{{ ", "(", ")", " }}");
    test_nested ("{{ ", "[", "]", " }}");
    test_nested ("{{ ", "not ", "", " }}");
    test_nested ("{{ ", "-", "", " }}");
    test_nested ("{{ ", "1+", "", " }}");
    test_nested ("{{ ", "", "|trim", " }}");
    test_nested ("{{ ", "", " if 1 else 1", " }}");
}

int main (void)
{
    test_texts ();
    test_errors ();
    test_source ();
    return done_testing ();
}
