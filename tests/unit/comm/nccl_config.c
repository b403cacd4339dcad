/* nccl_config.c - test files of settings for NCCL: what they say, and what is refused where */

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "libcore/comm/nccl_config.h"
#include "libcore/topo/grid.h"
#include "tests/tap/tap.h"

static struct nccl_config *parse (const char *text, struct mg_error *err)
{
    return nccl_config_parse ("f.yaml", text, strlen (text), err);
}

static void test_good (void)
{
    static const char text[] = "# of a cluster\n"
                               "tp: &all\n"
                               "  cga_cluster_size: 0\n"
                               "  min_ctas: 2\n"
                               "  max_ctas: 64\n"
                               "  net_name: SOCKET\n"
                               "  is_high_priority_stream: true\n"
                               "ep: *all\n"
                               "dp_cp: { max_ctas: 8, net_name: ib }\n"
                               "pp: {}\n";
    struct mg_error err = { "" };
    struct nccl_config *config = parse (text, &err), *other;
    const struct nccl_settings *s;

    if (!config)
        bail_out ("%s", err.text);
    s = nccl_config_of (config, "tp");
    ok (s && s->cga_cluster_size == 0 && s->min_ctas == 2 && s->max_ctas == 64
            && s->high_priority == 1 && strcmp (s->net_name, "Socket") == 0, "every setting");
    ok (s && memcmp (s, nccl_config_of (config, "ep"), sizeof (*s)) == 0, "an alias");
    s = nccl_config_find (config, "dp-cp");
    ok (s && s == nccl_config_of (config, "dp_cp") && s->max_ctas == 8
            && s->min_ctas == NCCL_UNSET && s->cga_cluster_size == NCCL_UNSET
            && s->high_priority == NCCL_UNSET && strcmp (s->net_name, "IB") == 0,
        "a mapping in braces, by our name");
    s = nccl_config_of (config, "pp");
    ok (s && s->max_ctas == NCCL_UNSET && s->net_name[0] == '\0', "a group without settings");
    ok (nccl_config_find (config, "pp-fwd-in") == s
            && nccl_config_find (config, "pp-backward") == s, "lanes have the settings of pp");
    ok (!nccl_config_of (config, "cp") && !nccl_config_find (config, "cp-inner")
            && !nccl_config_find (config, "world"), "other groups have none");
    other = parse ("tp: { max_ctas: 9 }", &err);
    ok (other && nccl_config_hash (other) != nccl_config_hash (config), "another hash");
    nccl_config_destroy (other);
    nccl_config_destroy (config);
    nccl_config_destroy (NULL);
}

/* Each group of this program but the world has a name of Megatron-LM. */
static void test_groups (void)
{
    struct mg_error err = { "" };
    char text[600] = "";

    for (int i = 0; i < nccl_config_num_groups (); i++)
        snprintf (text + strlen (text), sizeof (text) - strlen (text), "%s: {}\n",
                  nccl_config_group (i));
    struct nccl_config *config = parse (text, &err);
    if (!config)
        bail_out ("%s", err.text);
    for (int kind = 0; kind < GROUP_WORLD; kind++)
        ok (nccl_config_find (config, group_kinds[kind].name) != NULL, "%s has settings",
            group_kinds[kind].name);
    nccl_config_destroy (config);
}

static void test_refused (void)
{
    static const struct {
        const char *text, *want;
    } rows[] = {
        { "", "f.yaml: there are no settings in it" },
        { "# only this\n", "f.yaml: there are no settings in it" },
        { "tp\n", "f.yaml:1: want groups, each \"NAME:\" with settings below it" },
        { "- tp\n", "f.yaml:1: want groups, each" },
        { "tp:\n  max_ctas: 4\nxp:\n  max_ctas: 4\n",
          "f.yaml:3: there is no group \"xp\", want tp, cp, hcp, pp, dp, dp_cp, " },
        { "[a]: {}\n", "f.yaml:1: there is no group \"\", want tp" },
        { "tp: 4\n", "f.yaml:1: tp: want settings, one a line" },
        { "tp:\n", "f.yaml:1: tp: want settings" },
        { "tp: {}\ntp: {}\n", "f.yaml:2: tp is there twice" },
        { "tp:\n  cga: 4\n", "f.yaml:2: tp: there is no setting \"cga\", want cga_cluster_size, "
          "min_ctas, max_ctas, net_name or is_high_priority_stream" },
        { "tp:\n  max_ctas: 4\n  max_ctas: 4\n", "f.yaml:3: tp: max_ctas is there twice" },
        { "tp:\n  max_ctas: 0\n", "f.yaml:2: tp: max_ctas: " },
        { "tp:\n  max_ctas: 65\n", "f.yaml:2: tp: max_ctas: " },
        { "tp:\n  min_ctas: many\n", "f.yaml:2: tp: min_ctas: \"many\"" },
        { "tp:\n  cga_cluster_size: 9\n", "f.yaml:2: tp: cga_cluster_size: " },
        { "tp:\n  cga_cluster_size: -1\n", "f.yaml:2: tp: cga_cluster_size: " },
        { "tp:\n  max_ctas:\n    - 4\n", "f.yaml:3: tp: max_ctas: want one value" },
        { "tp:\n  max_ctas: \"4\\0\"\n", "f.yaml:2: tp: max_ctas: want one value" },
        { "tp:\n  net_name: ethernet\n",
          "f.yaml:2: tp: net_name: \"ethernet\" is not IB or socket" },
        { "tp:\n  is_high_priority_stream: 2\n", "f.yaml:2: tp: is_high_priority_stream: " },
        { "tp:\n  min_ctas: 8\n  max_ctas: 4\n",
          "f.yaml:2: tp: min_ctas is 8, want at most max_ctas, which is 4" },
        { "tp: {}\n---\ndp: {}\n", "f.yaml:3: a second document, want one" },
        { "tp: {\n", "f.yaml:2: it is no YAML: " },
        { "tp:\n\tmax_ctas: 4\n", "f.yaml:2: it is no YAML: " },
        { "tp: *nobody\n", "f.yaml:1: it is no YAML: " },
        { "tp: \xff\n", "f.yaml: byte 4: it is no YAML: " },
    };

    for (size_t i = 0; i < sizeof (rows) / sizeof (rows[0]); i++) {
        struct mg_error err = { "" };

        ok (!parse (rows[i].text, &err) && errno == EINVAL
                && strncmp (err.text, rows[i].want, strlen (rows[i].want)) == 0
                && !strchr (err.text, '\n'), "row %zu: %s", i, err.text);
    }
}

static void test_file (void)
{
    struct mg_error err = { "" };
    struct nccl_config *config;
    FILE *f = fopen ("good.yaml", "w");

    if (!f)
        bail_out ("no file");
    fputs ("tp: { max_ctas: 4 }\n", f);
    fclose (f);
    ok ((config = nccl_config_read ("good.yaml", &err)) != NULL, "a file %s", err.text);
    nccl_config_destroy (config);
    f = fopen ("good.yaml", "a");
    for (int i = 0; f && i < 70000; i++)
        fputc ('#', f);
    if (!f || fclose (f) != 0)
        bail_out ("no file");
    ok (!nccl_config_read ("good.yaml", &err) && errno == EFBIG, "a long one: %s", err.text);
    ok (!nccl_config_read ("none.yaml", &err) && errno == ENOENT
            && strstr (err.text, "cannot read none.yaml"), "none: %s", err.text);
    ok (!nccl_config_read (".", &err) && errno == EISDIR, "a folder: %s", err.text);
    unlink ("good.yaml");
}

int main (void)
{
    test_good ();
    test_groups ();
    test_refused ();
    test_file ();
    return done_testing ();
}
