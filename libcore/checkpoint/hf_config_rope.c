/* hf_config_rope.c - rotary positions in config.json, both ways
 *
 * transformers 5 has all in rope_parameters; 4 has rope_scaling, and rope_theta beside it.  If a
 * file has both, rope_scaling counts in both versions.  Formulas are those of
 * modeling_rope_utils.py.
 *
 * YaRN multiplies cosines and sines by a concentration factor.  In config.json, this factor is
 * attention_factor; if that is not given, it follows from mscale and mscale_all_dim, but only if
 * both are given and not 0; else it follows from the scaling factor alone.  Our factor always
 * follows from mscale and mscale_all_dim (rope.h).
 */

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/checkpoint/box.h"
#include "libcore/checkpoint/hf_config_private.h"
#include "libcore/nn/rope.h"

/* --- reading --- */

/* Fields of rope_parameters or rope_scaling, and of config.json around them. */
struct scaling {
    struct hf_reader in;
    struct hf_reader *around;
    int positions;
};

static const char *const known_keys[] = {
    "rope_theta", "rope_type", "type", "factor", "low_freq_factor", "high_freq_factor",
    "original_max_position_embeddings", "partial_rotary_factor", "attention_factor", "beta_fast",
    "beta_slow", "mscale", "mscale_all_dim", "truncate", NULL,
};

static void check_keys (struct hf_reader *r)
{
    char text[BOX_NAME_MAX];
    const char *key;
    json_t *value;

    json_object_foreach (r->root, key, value) {
        bool known = false;

        for (int i = 0; !known && known_keys[i]; i++)
            known = strcmp (known_keys[i], key) == 0;
        if (!known && r->rc == 0)
            r->rc = mg_error_set (r->err, ENOTSUP, "%s is not known",
                                  box_name_text (text, key));
    }
}

/* Transformers takes the number around the object before that inside, or never, by its version. */
static int get_original (struct scaling *s)
{
    static const char key[] = "original_max_position_embeddings";
    int original = hf_get_int (&s->in, key, s->positions);

    if (hf_get_int (s->around, key, original) != original)
        hf_refuse (s->around, key, "want that of the scaling of rotary positions");
    if (s->around->rc < 0)
        s->in.rc = -1;
    return original;
}

static double check_factor (struct hf_reader *r, double factor)
{
    if (!(factor >= 1))
        hf_refuse (r, "factor", "want a number, 1 or more");
    return factor;
}

static void read_none (struct scaling *s)
{
    (void)s;
}

static void read_linear (struct scaling *s)
{
    hf_set_real (&s->in, "rotary-seq-len-interpolation-factor",
                 check_factor (&s->in, hf_get_real (&s->in, "factor", 0)));
}

static void read_llama3 (struct scaling *s)
{
    struct hf_reader *r = &s->in;

    hf_set_flag (r, "use-rope-scaling", true);
    hf_set_real (r, "rope-scaling-factor", check_factor (r, hf_get_real (r, "factor", 8)));
    hf_set_real (r, "rope-scaling-low-freq-factor", hf_get_real (r, "low_freq_factor", 1));
    hf_set_real (r, "rope-scaling-high-freq-factor", hf_get_real (r, "high_freq_factor", 4));
    hf_set_int (r, "rope-scaling-original-max-position-embeddings", get_original (s));
}

/* 0 counts as if it were not there. */
static double get_beta (struct hf_reader *r, const char *key, double preset)
{
    double beta = hf_get_real (r, key, preset);

    return beta == 0 ? preset : beta;
}

static double get_mscale (struct hf_reader *r, const char *key)
{
    double mscale = hf_get_real (r, key, 0);

    if (!(mscale >= 0))
        hf_refuse (r, key, "want 0 or more");
    return mscale;
}

/* Find mscale and mscale_all_dim for the factor of cosines and sines.  mscale_all_dim of
 * latents stays, since their softmax is scaled by it; that of others is of no other use.
 */
static void find_mscale (struct hf_reader *r, struct rope_config *c)
{
    const char *key = "attention_factor";
    const struct rope_config usual = { .scaling = ROPE_YARN, .factor = c->factor, .mscale = 1 };
    double concentration = hf_get_real (r, key, rope_concentration (&usual));

    if (!hf_field (r, key) && c->mscale != 0 && c->mscale_all_dim != 0)
        return;
    if (!r->kind->latent)
        c->mscale_all_dim = 0;
    if (rope_set_concentration (c, concentration))
        return;
    if (!r->kind->latent && concentration > 0 && rope_set_concentration (c, 1 / concentration)) {
        c->mscale_all_dim = c->mscale;
        c->mscale = 0;
        return;
    }
    hf_refuse (r, key, "no mscale does the same");
}

static void read_yarn (struct scaling *s)
{
    struct hf_reader *r = &s->in;
    struct rope_config c = { .scaling = ROPE_YARN };
    int original = get_original (s);
    bool ratio = json_is_null (json_object_get (r->root, "factor"));

    c.factor = ratio ? (double)s->positions / original : hf_get_real (r, "factor", 0);
    check_factor (r, c.factor);
    c.mscale = get_mscale (r, "mscale");
    c.mscale_all_dim = get_mscale (r, "mscale_all_dim");
    find_mscale (r, &c);
    if (json_is_null (json_object_get (r->root, "truncate")))
        hf_refuse (r, "truncate", "want true or false");
    hf_set_real (r, "rotary-scaling-factor", c.factor);
    hf_set_int (r, "yarn-original-max-position-embeddings", original);
    hf_set_real (r, "yarn-beta-fast", get_beta (r, "beta_fast", 32));
    hf_set_real (r, "yarn-beta-slow", get_beta (r, "beta_slow", 1));
    hf_set_real (r, "mscale", c.mscale);
    hf_set_real (r, "mscale-all-dim", c.mscale_all_dim);
    hf_set_flag (r, "no-yarn-correction-range-round-to-int", !hf_get_bool (r, "truncate", true));
}

static const struct {
    const char *name, *refusal;
    void (*read) (struct scaling *s); /* NULL: 'refusal' says why not */
    bool latent;                      /* multi-latent attention has it */
} types[] = {
    { "default", NULL, read_none, true },
    { "linear", NULL, read_linear, false },
    { "llama3", NULL, read_llama3, false },
    { "yarn", NULL, read_yarn, true },
    { "dynamic", "its frequencies depend on the length of a sequence; want default, linear, llama3 "
      "or yarn", NULL, false },
    { "longrope", "it has a factor for each frequency, and others for long sequences; want "
      "default, linear, llama3 or yarn", NULL, false },
};

static void read_scaling (struct scaling *s)
{
    struct hf_reader *r = &s->in;
    json_t *type = hf_field (r, "rope_type"), *older = hf_field (r, "type");
    const char *key = type ? "rope_type" : "type", *name = "default";

    if (type && older && !json_equal (type, older))
        hf_refuse (r, "type", "rope_type says otherwise");
    type = type ? type : older;
    if (type && !(name = json_string_value (type))) {
        hf_refuse (r, key, "want a name");
        return;
    }
    hf_set_text (r, "position-embedding-type",
                 strcmp (name, "yarn") == 0 && !r->kind->latent ? "yarn" : "rope");
    if (r->kind->latent)
        hf_set_text (r, "rope-type", strcmp (name, "yarn") == 0 ? "yarn" : "rope");
    for (size_t i = 0; i < sizeof (types) / sizeof (types[0]); i++) {
        if (strcmp (types[i].name, name) != 0)
            continue;
        if (!types[i].read)
            hf_refuse (r, key, types[i].refusal);
        else if (r->kind->latent && !types[i].latent)
            hf_refuse (r, key, "want default or yarn with multi-latent attention");
        else {
            check_keys (r);
            types[i].read (s);
        }
        return;
    }
    hf_refuse (r, key, "want default, linear, llama3 or yarn");
}

/* Without any of the two objects there is no scaling. */
static json_t *find_object (const struct hf_reader *r, const char **key)
{
    json_t *older = hf_field (r, "rope_scaling"), *newer = hf_field (r, "rope_parameters");
    bool empty = !older || (json_is_object (older) && json_object_size (older) == 0);

    *key = empty && newer ? "rope_parameters" : "rope_scaling";
    return empty && newer ? newer : older;
}

void hf_read_rope (struct hf_reader *r, int positions)
{
    struct scaling s = { .in = *r, .around = r, .positions = positions };
    double theta = hf_get_real (r, "rope_theta", r->kind->theta > 0 ? r->kind->theta : 10000);
    double part = hf_get_real (r, "partial_rotary_factor", 1);
    json_t *none = json_object ();
    const char *key;

    if (!(s.in.root = find_object (r, &key)))
        s.in.root = none;
    s.in.rc = r->rc;
    if (!json_is_object (s.in.root))
        hf_refuse (r, key, "want an object");
    else {
        theta = hf_get_real (&s.in, "rope_theta", theta);
        if (hf_get_real (&s.in, "partial_rotary_factor", part) != 1)
            hf_refuse (hf_field (&s.in, "partial_rotary_factor") ? &s.in : r,
                       "partial_rotary_factor", "want 1");
        read_scaling (&s);
        if (s.in.rc < 0 && r->rc == 0)
            r->rc = mg_error_prefix (r->err, "%s", key);
    }
    hf_set_real (r, "rotary-base", theta);
    json_decref (none);
}

/* --- writing --- */

static double number (const struct hf_writer *w, const char *name, double preset)
{
    const char *text = notes_find (w->args, name);

    return text ? strtod (text, NULL) : preset;
}

/* A whole number where it is one: transformers wants that of lengths. */
static json_t *length (const struct hf_writer *w, const char *name, double preset)
{
    double value = number (w, name, preset);

    return value == floor (value) && value < 1e15 ? json_integer ((json_int_t)value)
                                                  : json_real (value);
}

static json_t *make_llama3 (struct hf_writer *w)
{
    return json_pack ("{s:s, s:o, s:o, s:o, s:o}", "rope_type", "llama3", "factor",
                      hf_real (w, "rope-scaling-factor", 8), "low_freq_factor",
                      hf_real (w, "rope-scaling-low-freq-factor", 1), "high_freq_factor",
                      hf_real (w, "rope-scaling-high-freq-factor", 4),
                      "original_max_position_embeddings",
                      length (w, "rope-scaling-original-max-position-embeddings", 8192));
}

/* Set the factors of cosines and sines, and of the softmax of latents. */
static int put_mscale (json_t *object, const struct rope_config *c, bool latent)
{
    const struct rope_config usual = { .scaling = ROPE_YARN, .factor = c->factor, .mscale = 1 };
    double concentration = rope_concentration (c);
    int rc = 0;

    if (c->mscale != 0 && c->mscale_all_dim != 0)
        rc = json_object_set_new (object, "mscale", json_real (c->mscale));
    else if (concentration != rope_concentration (&usual))
        rc = json_object_set_new (object, "attention_factor", json_real (concentration));
    if (rc == 0 && c->mscale_all_dim != 0 && (c->mscale != 0 || latent))
        rc = json_object_set_new (object, "mscale_all_dim", json_real (c->mscale_all_dim));
    return rc;
}

static json_t *make_yarn (struct hf_writer *w)
{
    const struct rope_config c = {
        .scaling = ROPE_YARN,
        .factor = number (w, "rotary-scaling-factor", 1),
        .mscale = number (w, "mscale", 1),
        .mscale_all_dim = number (w, "mscale-all-dim", 0),
    };
    json_t *object = json_pack ("{s:s, s:f, s:o, s:o, s:o}", "rope_type", "yarn", "factor",
                                c.factor, "original_max_position_embeddings",
                                length (w, "yarn-original-max-position-embeddings", 4096),
                                "beta_fast", hf_real (w, "yarn-beta-fast", 32), "beta_slow",
                                hf_real (w, "yarn-beta-slow", 1));
    bool exact = hf_has (w->args, "no-yarn-correction-range-round-to-int");

    if (object && put_mscale (object, &c, w->kind->latent) == 0
        && (!exact || json_object_set_new (object, "truncate", json_false ()) == 0))
        return object;
    json_decref (object);
    return NULL;
}

void hf_put_rope (struct hf_writer *w)
{
    const struct notes *args = w->args;
    bool yarn = w->kind->latent ? !hf_is (args, "rope-type", "rope")
                                : hf_is (args, "position-embedding-type", "yarn");
    json_t *scaling = json_null ();

    if (yarn)
        scaling = make_yarn (w);
    else if (hf_has (args, "use-rope-scaling"))
        scaling = make_llama3 (w);
    else if (hf_has (args, "rotary-seq-len-interpolation-factor"))
        scaling = json_pack ("{s:s, s:o}", "rope_type", "linear", "factor",
                             hf_real (w, "rotary-seq-len-interpolation-factor", 1));
    hf_put (w, "rope_theta", hf_real (w, "rotary-base", 10000));
    hf_put (w, "rope_scaling", scaling);
    json_object_del (w->root, "rope_parameters");
    json_object_del (w->root, "partial_rotary_factor");
    json_object_del (w->root, "original_max_position_embeddings");
}
