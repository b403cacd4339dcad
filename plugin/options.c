/* options.c - the option table and the values that were given
 *
 * A row has name, value, help and the field of struct geometry.  Every value is checked when it
 * is given, alone; the rules between sizes are checked once all options are known.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/base/parse.h"
#include "plugin/options.h"

const struct option_info options_table[OPTION_NUM] = {
    [OPTION_TP] = {
        .name = "megatron-tp", .env = "MEGATRON_TP", .field = "tp", .arginfo = "N",
        .usage = "[megatron] tensor parallel size: tasks that share every layer",
    },
    [OPTION_CP] = {
        .name = "megatron-cp", .env = "MEGATRON_CP", .field = "cp", .arginfo = "N",
        .usage = "[megatron] context parallel size: tasks that share every sequence",
    },
    [OPTION_EP] = {
        .name = "megatron-ep", .env = "MEGATRON_EP", .field = "ep", .arginfo = "N",
        .usage = "[megatron] expert parallel size: tasks that share the experts of a layer",
    },
    [OPTION_ETP] = {
        .name = "megatron-etp", .env = "MEGATRON_ETP", .field = "etp", .arginfo = "N",
        .usage = "[megatron] tensor parallel size of the experts (default: that of "
                 "--megatron-tp)",
    },
    [OPTION_PP] = {
        .name = "megatron-pp", .env = "MEGATRON_PP", .field = "pp", .arginfo = "N",
        .usage = "[megatron] pipeline parallel size: stages that the layers are cut into",
    },
    [OPTION_VPP] = {
        .name = "megatron-vpp", .env = "MEGATRON_VPP", .field = "vpp", .arginfo = "N",
        .usage = "[megatron] virtual pipeline stages per task, for an interleaved schedule",
    },
    [OPTION_ORDER] = {
        .name = "megatron-order", .env = "MEGATRON_ORDER", .field = "order",
        .arginfo = "AXES",
        .usage = "[megatron] order of the axes over the ranks, fastest first (default: "
                 "tp-cp-ep-dp-pp)",
    },
    [OPTION_PLACEMENT] = {
        .name = "megatron-placement", .env = "MEGATRON_PLACEMENT", .field = "placement",
        .arginfo = "POLICY",
        .usage = "[megatron] if a tensor parallel group must cross nodes: allow, warn or "
                 "refuse (default: warn)",
    },
};

static const char *const placement_names[] = {
    [PLACEMENT_ALLOW] = "allow",
    [PLACEMENT_WARN] = "warn",
    [PLACEMENT_REFUSE] = "refuse",
};

const char *options_placement_name (enum placement placement)
{
    return placement_names[placement];
}

void options_init (struct options *o)
{
    memset (o, 0, sizeof (*o));
    geometry_init (&o->geometry);
}

/* An order string that is wrong for sizes of 1 is wrong for all sizes. */
static int check_order (const char *what, const char *text, struct mg_error *err)
{
    struct geometry ones;
    enum mg_axis axis[MG_NUM_AXES];

    geometry_init (&ones);
    if (geometry_set (&ones, "order", what, text, err) < 0)
        return -1;
    if (geometry_order (&ones, axis, err) < 0)
        return mg_error_prefix (err, "%s", what);
    return 0;
}

static int read_placement (const char *what, const char *text, enum placement *placement,
                           struct mg_error *err)
{
    for (int i = PLACEMENT_ALLOW; i <= PLACEMENT_REFUSE; i++) {
        if (strcmp (placement_names[i], text) == 0) {
            *placement = i;
            return 0;
        }
    }
    return mg_error_set (err, EINVAL, "%s: \"%.60s\" is not allow, warn or refuse", what,
                         text);
}

int options_check_value (enum option_id id, const char *what, const char *text,
                         struct mg_error *err)
{
    enum placement placement;
    int value, rc;

    if (id == OPTION_ORDER)
        rc = check_order (what, text, err);
    else if (id == OPTION_PLACEMENT)
        rc = read_placement (what, text, &placement, err);
    else // 0 means "not given" inside the geometry; a user who means that leaves it out
        rc = parse_int (what, text, 1, GEOMETRY_SIZE_MAX, &value, err);
    // whatever bytes the value had, the message stays one line
    for (char *p = err && rc < 0 ? err->text : ""; *p; p++) {
        if ((unsigned char)*p < ' ' || *p == 0x7f)
            *p = '?';
    }
    return rc;
}

int options_set (struct options *o, enum option_id id, enum option_origin origin,
                 const char *text)
{
    const struct option_info *info = &options_table[id];
    char dashed[40];
    const char *what = origin == OPTION_DEFAULT ? info->env : dashed;

    snprintf (dashed, sizeof (dashed), "--%s", info->name);
    o->origin[id] = origin;
    o->error[id].text[0] = '\0';
    if (!text)
        text = "";
    if (options_check_value (id, what, text, &o->error[id]) < 0)
        return -1;
    if (id == OPTION_PLACEMENT)
        return read_placement (what, text, &o->placement, &o->error[id]);
    return geometry_set (&o->geometry, info->field, what, text, &o->error[id]);
}

enum option_origin options_origin (const struct options *o)
{
    enum option_origin strongest = OPTION_UNSET;

    for (int i = 0; i < OPTION_NUM; i++) {
        if (i != OPTION_PLACEMENT && o->origin[i] > strongest)
            strongest = o->origin[i];
    }
    return strongest;
}

const char *options_error (const struct options *o)
{
    for (int i = 0; i < OPTION_NUM; i++) {
        if (o->error[i].text[0])
            return o->error[i].text;
    }
    return NULL;
}

const char *options_default (enum option_id id)
{
    const char *text = getenv (options_table[id].env);

    return text && *text ? text : NULL;
}

void options_transport (enum option_id id, char name[OPTIONS_TRANSPORT_MAX])
{
    // "SLURM_SPANK_" + "_SLURM_SPANK_OPTION_" + plugin's name + option's name
    snprintf (name, OPTIONS_TRANSPORT_MAX, "SLURM_SPANK__SLURM_SPANK_OPTION_megatron_%s",
              options_table[id].name);
    for (char *p = name; *p; p++) {
        if (*p == '-')
            *p = '_';
    }
}
