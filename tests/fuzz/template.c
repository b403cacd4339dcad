/* template.c - sources of chat templates: one that is read is rendered, within its limits, twice
 * the same; one that is not has a text that says why
 *
 * Input: the template.
 */

#include <stdlib.h>
#include <string.h>

#include "libcore/serve/template.h"
#include "tests/fuzz/fuzz.h"

static const char variables[] =
    "{\"messages\": [{\"role\": \"user\", \"content\": \" h\\u00e9 \"}, {\"role\": \"assistant\","
    " \"content\": [{\"type\": \"text\", \"text\": \"b\"}]}], \"bos_token\": \"<s>\","
    " \"add_generation_prompt\": true, \"tools\": [{\"name\": \"f\", \"n\": [1, 2.5, null]}]}";

static int render (const struct chat_template *t, const json_t *values, struct text_buffer *out)
{
    struct mg_error err = { "" };
    int rc = chat_template_render (t, values, out, &err);

    fuzz_check (rc == 0 || (err.text[0] && out->size == 0), "an error without a text");
    fuzz_check (out->size <= TEMPLATE_OUTPUT_MAX, "%zu bytes", out->size);
    return rc;
}

static void run (const uint8_t *data, size_t size)
{
    struct fuzz_input in = { data, size };
    char *text = fuzz_copy (in);
    json_t *values = json_loads (variables, 0, NULL);
    struct text_buffer one = { .data = NULL }, two = { .data = NULL };
    struct mg_error err = { "" };
    struct chat_template *t = chat_template_create (text, size, &err);

    fuzz_check (t || err.text[0], "no text");
    if (t) {
        int rc = render (t, values, &one);

        fuzz_check (render (t, values, &two) == rc && one.size == two.size, "another result");
    }
    chat_template_destroy (t);
    text_buffer_clear (&one);
    text_buffer_clear (&two);
    json_decref (values);
    free (text);
}

const struct fuzz_target fuzz_template = { "template", run };
