#!/bin/bash
# Each file of code has a unit test that is named after its noun, or after the noun that it is a
# part of: libcore/F/NOUN.c and libcore/F/NOUN_PART.c have tests/unit/F/NOUN.c, kernels/cpu/NOUN.c and
# kernels/cuda/NOUN.cu have tests/unit/kernels/NOUN.c.  Commands, cmd/, are tested as commands.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"

# What is tested under another name: FOLDER/NOUN, a unit test FOLDER/NAME or a system test tNNNN,
# and why.
rows='
kernels/check          kernels/gemm            what every backend asks of a call
kernels/expert_bias    kernels/expert_act      biases and activations of experts are one test
kernels/flash          kernels/attention       blocks of attention, which only attention calls
kernels/jitter         kernels/gemm_double     a row of the operations before a router
kernels/kernels        kernels/table           the backend as such is its table
kernels/load           t5020                   wants a device of CUDA
kernels/plan           t5020                   the same
kernels/product        kernels/gemm            products of the CUDA device: t5020 runs them
kernels/sort           kernels/embedding       keys, which gradients of embeddings sort
kernels/tile           kernels/gemm            blocks of products, which only products call
args/check             args/args               whole lists of arguments
args/kinds             args/other              a table
args/parallel_args     t3073                   wants checkpoints of several layouts
bootstrap/boot         bootstrap/bootstrap     backends, tested through the front end; PMIx: t2002
checkpoint/audit       checkpoint/crash        wants damaged checkpoints
checkpoint/hf_index    checkpoint/hf_files     wants models in several files
comm/comm_nccl         t5030                   wants a double of NCCL, and several ranks
comm/comm              comm/ranks              other scripts run it on several ranks: t2001
text/added_tokens      text/tokenizer_hf       a step of a tokenizer: ids of the original library
text/normalizer        text/tokenizer_hf       the same
text/pretoken          text/tokenizer_hf       the same
text/splitter          text/tokenizer_hf       the same
text/subword           text/tokenizer_hf       the same
data/sample            data/sample_source      fields that sources fill
data/sample_batches    data/sample_source      a kind of source
data/sample_gpt        data/sample_source      a kind of source
infer/generator        t4000                   wants a trained model
infer/model_tokens     t4000                   wants files beside a model
infer/scorer           t4002                   wants a trained model
infer/start            t4000                   the same
nn/graphs              args/graphs             names
nn/recompute           args/recompute          names; units: model/model
ops/cache              model/cache             wants a model that continues sequences
ops/context            t3015                   wants context-parallel ranks
ops/groups             t3012                   wants ranks that share a group of heads
ops/moe                t3016                   wants ranks that exchange tokens; one: model/gpt_moe
ops/ring               t3015                   wants context-parallel ranks
train/data             t3021                   wants the files of a run
train/data_edit        t3021                   the same
train/locate           t3041                   wants a run that goes wrong
train/passes           t3003                   wants a run; all of its layouts: t3001
train/resume           t3002                   wants checkpoints of a run
train/routing          t3016                   wants a run with experts
train/session          t3000                   wants a job, a model and weights
train/tensorboard      t3035                   wants the reader of event files
train/train            t3000                   the run
plugin/cmdline         t1106                   wants lines of srun, salloc and sbatch
plugin/nodes           t1111                   wants the parser of Slurm
plugin/plugin          t1100                   wants plugstack.conf
plugin/slurmopt        t1106                   wants the options of Slurm
plugin/spank_megatron  t1104                   hooks of Slurm
plugin/special         t1102                   wants steps of Slurm
plugin/split           t1111                   wants nodes of Slurm
plugin/step            t1102                   wants tasks of Slurm
plugin/submit          t1101                   wants srun, salloc and sbatch
'

cd "$MG_SRCDIR" || bail_out "no source directory"
declare -A test_of used
while read -r noun name _; do
    [ -z "$noun" ] || test_of[$noun]=$name
done <<<"$rows"

# nouns FILE: FOLDER/NOUN of a file, then of what it may be a part of
nouns() {
    local folder noun
    folder=$(dirname "${1#libcore/}") noun=$(basename "$1")
    noun=${noun%.c*}
    folder=${folder%/cpu} folder=${folder%/cuda}
    echo "$folder/$noun"
    while [[ $noun == *_* ]]; do
        noun=${noun%_*}
        echo "$folder/$noun"
    done
}

# covered FILE: it has a test of its own, or one in the table
covered() {
    local noun
    for noun in $(nouns "$1"); do
        [ ! -e "tests/unit/$noun.c" ] || return 0
    done
    for noun in $(nouns "$1"); do
        [ -z "${test_of[$noun]:-}" ] || { used[$noun]=1; return 0; }
    done
    return 1
}

bad=
count=0
for file in libcore/*/*.c kernels/*.c kernels/cpu/*.c kernels/cuda/*.c kernels/cuda/*.cu \
    plugin/*.c; do
    count=$((count + 1))
    covered "$file" || bad+="$file"$'\n'
done
ok "[ $count -ge 300 ]" "files are found ($count)"
is "$bad" "" "each has a test of its noun"

bad=
for noun in "${!test_of[@]}"; do
    name=${test_of[$noun]}
    [ -e "tests/unit/$name.c" ] || compgen -G "tests/$name-*.t" >/dev/null \
        || bad+="$noun: no test $name"$'\n'
    [ -n "${used[$noun]:-}" ] || bad+="$noun: nothing needs its row"$'\n'
done
is "$bad" "" "each row of the table is needed and names a test"

bad=
for file in tests/unit/*/*.c; do
    grep -q '^int main (' "$file" || continue
    name=$(basename "$file" .c)
    grep -q "%D%/$name\.t" "$(dirname "$file")/Makemodule.am" || bad+="$file "
done
is "$bad" "" "each unit test is built"

# The guard itself.
ok "! covered libcore/nn/absent.c && ! covered kernels/cpu/absent.c" "a file without a test is found"
ok "covered libcore/model/names_absent.c" "a part has the test of its noun"
is "$(nouns kernels/cpu/a_b_c.c | xargs)" "kernels/a_b_c kernels/a_b kernels/a" \
    "parts of parts are parts"
done_testing
