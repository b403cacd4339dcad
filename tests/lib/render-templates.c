/* render-templates - render chat templates: a line of JSON for each, from standard input
 *
 *   render-templates < CASES
 *   render-templates TEMPLATE VARIABLES
 *
 * A case is {"template": TEXT, "variables": {...}}; its answer is a line {"text": TEXT}, or
 * {"error": TEXT, "errno": NAME} with EINVAL, ENOTSUP, E2BIG or ENOMEM.  With two files, a template
 * and an object of JSON, the text itself goes to standard output.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/serve/template.h"

static const char *name_of (int errnum)
{
    return errnum == EINVAL ? "EINVAL" : errnum == ENOTSUP ? "ENOTSUP"
           : errnum == E2BIG ? "E2BIG" : errnum == ENOMEM ? "ENOMEM" : "another";
}

static int render (const char *text, size_t size, const json_t *variables, struct text_buffer *out,
                   struct mg_error *err)
{
    struct chat_template *t = chat_template_create (text, size, err);
    int rc = t ? chat_template_render (t, variables, out, err) : -1;

    chat_template_destroy (t);
    return rc;
}

static json_t *answer (const json_t *item)
{
    const json_t *text = json_object_get (item, "template");
    struct text_buffer out = { .data = NULL };
    struct mg_error err = { "" };
    json_t *to;

    if (render (json_string_value (text), json_string_length (text),
                json_object_get (item, "variables"), &out, &err) < 0)
        to = json_pack ("{s:s%, s:s}", "error", err.text, strlen (err.text), "errno",
                        name_of (errno));
    else
        to = json_pack ("{s:s%}", "text", out.data ? out.data : "", out.size);
    text_buffer_clear (&out);
    return to;
}

static int render_cases (void)
{
    char *line = NULL;
    size_t room = 0;
    ssize_t n;

    while ((n = getline (&line, &room, stdin)) > 0) {
        json_t *item = json_loadb (line, (size_t)n, JSON_ALLOW_NUL, NULL);
        json_t *to = json_is_string (json_object_get (item, "template")) ? answer (item) : NULL;

        if (!to || json_dumpf (to, stdout, JSON_COMPACT) < 0) {
            fprintf (stderr, "render-templates: a case is no JSON, or its text is none\n");
            return 1;
        }
        putchar ('\n');
        json_decref (to);
        json_decref (item);
    }
    free (line);
    return 0;
}

static int render_file (const char *path, const char *variables)
{
    FILE *f = fopen (path, "r");
    char *text = malloc (TEMPLATE_BYTES_MAX + 1);
    json_t *values = json_load_file (variables, 0, NULL);
    struct text_buffer out = { .data = NULL };
    struct mg_error err = { "" };
    size_t size;
    int rc;

    if (!f || !text || !json_is_object (values)) {
        fprintf (stderr, "render-templates: %s, %s: not read\n", path, variables);
        return 1;
    }
    size = fread (text, 1, TEMPLATE_BYTES_MAX + 1, f);
    rc = render (text, size, values, &out, &err);
    if (rc < 0)
        fprintf (stderr, "render-templates: %s: %s\n", path, err.text);
    else
        fwrite (out.data, 1, out.size, stdout);
    fclose (f);
    free (text);
    json_decref (values);
    text_buffer_clear (&out);
    return rc < 0;
}

int main (int argc, char **argv)
{
    if (argc == 3)
        return render_file (argv[1], argv[2]);
    return render_cases ();
}
