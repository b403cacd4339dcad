/* model.c - which programs' arguments count, and how much */

#include <string.h>

#include "plugin/model.h"
#include "tests/tap/tap.h"

#define COUNT(a) (sizeof (a) / sizeof ((a)[0]))

static const struct {
    const char *words[8];
    enum model_verdict verdict; /* on tp 4 */
} cases[] = {
    { { NULL }, MODEL_FITS },
    { { "megatron" }, MODEL_FITS },
    { { "megatron", "train", "--num-attention-heads", "8" }, MODEL_FITS },
    { { "megatron", "train", "--num-attention-heads", "6" }, MODEL_FAILS },
    { { "/opt/x/megatron", "train", "--num-attention-heads=6" }, MODEL_FAILS },
    { { "megatron", "--num-attention-heads=6" }, MODEL_FAILS },
    { { "megatron", "plan", "--num-attention-heads=6" }, MODEL_FITS },
    { { "megatron", "data", "--num-attention-heads=6" }, MODEL_FITS },
    { { "megatron", "doctor", "--num-attention-heads=6" }, MODEL_FITS },
    { { "megatron/", "--num-attention-heads=6" }, MODEL_WARNS },
    { { "mymegatron", "--num-attention-heads=6" }, MODEL_WARNS },
    { { "--num-attention-heads=6" }, MODEL_FITS },
    { { "python", "plan", "--num-attention-heads=6" }, MODEL_WARNS },
    { { "python", "x.py", "--num-attention-heads=6", "--tensor-model-parallel-size", "4" },
      MODEL_FAILS },
    { { "python", "x.py", "--tensor-model-parallel-size", "2" }, MODEL_FAILS },
    { { "python", "x.py", "--tensor-model-parallel-size", "4" }, MODEL_FITS },
    { { "python", "x.py", "--context-parallel-size", "2" }, MODEL_WARNS },
    { { "megatron", "train", "--num-experts=8", "--disable-bias-linear", "--sequence-parallel" },
      MODEL_FITS },
    { { "python", "x.py", "--num-virtual-stages-per-pipeline-rank", "2" }, MODEL_WARNS },
};

static const struct {
    const char *words[6];
    bool cpu;
} device_cases[] = {
    { { "megatron", "train", "--device", "cpu" }, true },
    { { "megatron", "train", "--device=cpu" }, true },
    { { "python", "x.py", "--device=cpu:0" }, true },
    { { "megatron", "train", "--device", "cuda" }, false },
    { { "megatron", "train", "--device=cuda:1" }, false },
    { { "megatron", "train", "--device" }, false },
    { { "megatron", "train", "--device=" }, false },
    { { "megatron", "train", "--device-memory", "cpu" }, false },
    { { "megatron", "train", "--device=cpu", "--device", "cuda" }, false },
    { { "megatron", "train", "--device=cuda", "--device", "cpu" }, true },
    { { "--device=cpu" }, false },
    { { NULL }, false },
};

static void test_devices (void)
{
    for (size_t i = 0; i < COUNT (device_cases); i++) {
        int argc = 0;

        while (argc < 6 && device_cases[i].words[argc])
            argc++;
        is_int (model_on_cpu (argc, (char *const *)device_cases[i].words), device_cases[i].cpu,
                "%s ... %s: on the CPU", argc ? device_cases[i].words[0] : "no words",
                argc ? device_cases[i].words[argc - 1] : "");
    }
}

int main (void)
{
    struct geometry g;
    struct mg_error text = { .text = "" };

    geometry_init (&g);
    g.tp = 4;
    for (size_t i = 0; i < COUNT (cases); i++) {
        int argc = 0;

        while (argc < 8 && cases[i].words[argc])
            argc++;
        text.text[0] = '\0';
        is_int (model_check (&g, argc, (char *const *)cases[i].words, &text), cases[i].verdict,
                "%s ... %s", argc ? cases[i].words[0] : "no words",
                argc ? cases[i].words[argc - 1] : "");
        ok (!text.text[0] == (cases[i].verdict == MODEL_FITS) && !strchr (text.text, '\n'),
            "one line where something is wrong");
    }
    {
        const char *words[] = { "megatron", "train", "--num-layers", "5", "--padded-vocab-size=7",
                                "--pipeline-model-parallel-layout=E\nt|\033tL" };

        model_check (&g, 6, (char *const *)words, &text);
        ok (!strchr (text.text, '\n') && !strchr (text.text, '\033'), "no control character");
        ok (strstr (text.text, " (and 1 more)"), "%s", text.text);
    }
    {
        const char *words[] = { "megatron", "train", "--num-experts=8", "--disable-bias-linear",
                                "--sequence-parallel" };

        g.ep = 2;
        is_int (model_check (&g, 5, (char *const *)words, &text), MODEL_NOTES, "a default");
        ok (strstr (text.text, "etp is not given and defaults to tp 4"), "%s", text.text);
    }
    test_devices ();
    return done_testing ();
}
