/* encode.c - megatron data encode, decode: one text to token ids, and back
 *
 * encode reads all of standard input as one text; decode reads numbers until the input ends.
 * Both print what they have, or one line about what is wrong.
 */

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/data/data.h"
#include "libcore/base/parse.h"
#include "libcore/text/tokenizer.h"

static int check_input (struct mg_error *err)
{
    if (ferror (stdin))
        return mg_error_set (err, errno, "cannot read standard input: %s",
                             strerror (errno));
    return 0;
}

/* All of standard input; the caller frees '*text'. */
static int read_text (char **text, size_t *size, struct mg_error *err)
{
    size_t room = 1 << 16;
    size_t got = 0;
    char *all = NULL;
    size_t n;

    do {
        char *p = realloc (all, room);

        if (!p) {
            free (all);
            return mg_error_set (err, ENOMEM, "no memory for a text of %zu bytes", room);
        }
        all = p;
        n = fread (all + got, 1, room - got, stdin);
        got += n;
        if (got == room)
            room *= 2;
    } while (n > 0);
    if (check_input (err) < 0) {
        free (all);
        return -1;
    }
    *text = all;
    *size = got;
    return 0;
}

static int encode (struct tokenizer *tokenizer, struct mg_error *err)
{
    struct token_buffer tokens = { NULL, 0, 0 };
    char *text = NULL;
    size_t size = 0;
    int rc;

    if (read_text (&text, &size, err) < 0)
        return -1;
    rc = tokenizer_encode (tokenizer, text, size, &tokens, err);
    free (text);
    for (size_t i = 0; rc == 0 && i < tokens.count; i++)
        printf ("%s%d", i ? " " : "", tokens.ids[i]);
    free (tokens.ids);
    if (rc < 0)
        return -1;
    putchar ('\n');
    return 0;
}

/* Token number 'index' of standard input. */
static int decode_id (const struct tokenizer *tokenizer, const char *word, size_t index,
                      struct mg_error *err)
{
    const char *token;
    char what[40];
    size_t size;
    int id;

    snprintf (what, sizeof (what), "token %zu", index);
    if (parse_int (what, word, 0, tokenizer_vocab_size (tokenizer) - 1, &id, err) < 0)
        return -1;
    token = tokenizer_token (tokenizer, id, &size);
    fwrite (token, 1, size, stdout);
    return 0;
}

static bool is_space (int c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* A word longer than any number is cut, which leaves it as wrong as it was. */
static int decode (struct tokenizer *tokenizer, struct mg_error *err)
{
    char word[40];
    size_t index = 0;
    size_t n = 0;
    int c;

    do {
        c = getchar ();
        if (c != EOF && !is_space (c)) {
            if (n < sizeof (word) - 1)
                word[n++] = (char)(c ? c : '?');
            continue;
        }
        word[n] = '\0';
        if (n > 0 && decode_id (tokenizer, word, ++index, err) < 0)
            return -1;
        n = 0;
    } while (c != EOF);
    return check_input (err);
}

static const char encode_usage[] =
    "Usage: megatron data encode [OPTION...] <TEXT >IDS\n\n"
    "Print the token ids of standard input, which is one text.\n\n";

static const char decode_usage[] =
    "Usage: megatron data decode [OPTION...] <IDS >TEXT\n\n"
    "Print the text of the token ids on standard input.\n\n";

static int run (int argc, char **argv, const char *usage,
                int (*convert) (struct tokenizer *tokenizer, struct mg_error *err))
{
    struct data_tokenizer args = { .type = "ByteLevel" };
    bool help = false;
    const struct cmd_option_table tables[] = {
        { data_tokenizer_options, &args },
        { data_help_options, &help },
    };
    const struct cmd_syntax syntax = { "data", usage, tables, 2, &help, data_tokenizer_check,
                                       &args };
    struct tokenizer *tokenizer;
    struct mg_error err;
    int status, rc;

    status = cmd_part_read (&syntax, argc, argv);
    if (status != CMD_GO)
        return status;
    if (!(tokenizer = tokenizer_create (args.type, &args.files, &err)))
        return data_failure (argv[0], &err);
    rc = convert (tokenizer, &err);
    tokenizer_destroy (tokenizer);
    return rc < 0 ? data_failure (argv[0], &err) : 0;
}

int data_encode (int argc, char **argv)
{
    return run (argc, argv, encode_usage, encode);
}

int data_decode (int argc, char **argv)
{
    return run (argc, argv, decode_usage, decode);
}
