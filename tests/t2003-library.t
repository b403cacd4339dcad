#!/bin/bash
# The installed library, as somebody else's program finds it: pkg-config, headers in C and
# C++, the example alone, under mpirun and under srun; training through it.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/mpi.sh"
. "$MG_SRCDIR/tests/lib/slurm.sh"
. "$MG_SRCDIR/tests/lib/train.sh"

for tool in cc c++ make pkg-config; do
    command -v $tool >/dev/null || skip_all "$tool is not installed"
done
! ldd "$MG_BUILDDIR/.libs/libmegatron.so" | grep -q 'lib[a-z]*san' \
    || skip_all "the library is built with sanitizers"

dest=$TEST_DIR/dest
unset MAKEFLAGS MFLAGS MAKELEVEL
run make -s -C "$MG_BUILDDIR" install DESTDIR="$dest"
is "$status" 0 "make install with a DESTDIR" || diag "$err"
pc=$(find "$dest" -name megatron.pc)
ok "[ -s '$pc' ]" "megatron.pc is installed: ${pc#"$dest"}"
export PKG_CONFIG_PATH=${pc%/*} PKG_CONFIG_SYSROOT_DIR=$dest
is "$(pkg-config --modversion megatron)" \
    "$(megatron --version | sed -n 's/^megatron //p')" "it tells the version"
LD_LIBRARY_PATH=$dest$(PKG_CONFIG_SYSROOT_DIR='' pkg-config --variable=libdir megatron)
export LD_LIBRARY_PATH
ok "[ -e '$LD_LIBRARY_PATH/libmegatron.so' ]" "the library is where it says"
examples=$(find "$dest" -type d -name examples)
is "$(cd "$examples" && echo *)" \
    "Makefile container.sbatch many-nodes.sbatch one-machine.sh one-node.sbatch pytorch.sbatch requeue.sbatch ring.c train.c" \
    "the examples are installed"
missing=
for name in libmegatron megatron $(nm -D --defined-only "$MG_BUILDDIR/.libs/libmegatron.so" \
        | awk '$NF ~ /^mg_/ { print $NF }'); do
    [ -s "$(find "$dest" -name "$name.3")" ] || missing+="$name "
done
is "$missing" "" "man finds a page by the name of every function"
is "$(cat "$(find "$dest" -name mg_job_create.3)")" ".so man3/mg_job.3" "by a link"

# ---- the examples
cp -r "$examples" mine
ok "[ $(wc -l <mine/ring.c) -lt 60 ]" "ring.c has less than 60 lines"
ok "[ $(wc -l <mine/train.c) -lt 120 ]" "train.c less than 120"
run make -s -C mine
is "$status:$err" "0:" "they are built by their Makefile"
run mine/ring
is "$status" 0 "alone it is a job of one rank" || diag "$err"
is "$out" "rank 0 of 1 on node 0: tp 0, pp 0, dp 0; tp sum 0, from stage -1: -1" "which says so"
run env MEGATRON_TP_SIZE=3 mine/ring
is "$status" 1 "a size that does not fit is refused"
like "$err" "^ring: 1 tasks? cannot hold tp 3" "with the rule's text"
cat >plus.cc <<'END'
#include <megatron/megatron.h>
int main ()
{
    mg_job_options options = MG_JOB_OPTIONS_INIT;
    mg_error err;
    mg_job *job = mg_job_create (nullptr, &options, &err);
    float x = 1, y = 0;
    mg_p2p list[] = { { MG_SEND, 0, &x, 1, MG_FLOAT32 }, { MG_RECV, 0, &y, 1, MG_FLOAT32 } };
    int rc = job ? mg_comm_p2p (mg_job_comm (job, MG_GROUP_WORLD), list, 2, nullptr, &err) : 1;
    mg_job_destroy (job);
    return rc || y != 1;
}
END
# shellcheck disable=SC2046
run c++ -Wall -Wextra -Werror -o plus plus.cc $(pkg-config --cflags --libs megatron)
is "$status:$err" "0:" "a C++ program is built"
run ./plus
is "$status" 0 "and runs" || diag "$err"

# ---- several ranks
# What eight ranks with tp 2 x pp 2 print, by the definitions: rank = tp + 2 dp + 4 pp.
expected() {
    local rank tp dp pp from
    for rank in 0 1 2 3 4 5 6 7; do
        tp=$((rank % 2)) dp=$((rank / 2 % 2)) pp=$((rank / 4)) from=-1
        [ $pp = 0 ] || from=$((4 * dp + 1))
        echo "rank $rank of 8 on node $(($1 ? rank / 2 : 0)): tp $tp, pp $pp, dp $dp;" \
            "tp sum $((2 * (rank - tp) + 1)), from stage $((pp - 1)): $from"
    done
}
if mpi_available; then
    export MEGATRON_TP_SIZE=2 MEGATRON_PP_SIZE=2
    run mpi_run 8 mine/ring
    unset MEGATRON_TP_SIZE MEGATRON_PP_SIZE
    is "$status" 0 "eight ranks under mpirun" || diag "$err"
    is "$(sort <<<"$out")" "$(expected 0)" "stand where they should, and sum and send"
    if [ -e "$MG_BUILDDIR/plugin/.libs/megatron.so" ]; then
        slurm_start 4
        run srun -Q -N4 --ntasks-per-node=2 --megatron-tp=2 --megatron-pp=2 mine/ring
        is "$status" 0 "eight ranks under srun" || diag "$err"
        is "$(sort <<<"$out")" "$(expected 1)" "the plugin's sizes reach them"
        run srun -Q -N4 --ntasks-per-node=2 --megatron-tp=2 --megatron-pp=2 mine/train \
            --train-iters 20 --lr-decay-iters 200
        is "$status" 0 "train.c trains there" || diag "$err"
        like "$out" "^   20: loss 2[.][0-9]+, of unseen rows 2[.]" "and shows its loss"
        slurm_stop
    else
        skip 4 "the plugin is not built"
    fi
else
    skip 6 "no MPI"
fi

# ---- training
make_text text.txt 20
megatron data tokenize --input text.txt --output-prefix text --append-eod >/dev/null
args=("${tiny_model[@]}" --seq-length 16 --tokenizer-type ByteLevel --split 100,0,0
      --data-path text_text_document --micro-batch-size 1 --global-batch-size 4
      --train-iters 3 --lr 1e-3)
# shellcheck disable=SC2046
run cc -Wall -Werror -fopenmp -o train "$MG_SRCDIR/tests/lib/library-train.c" \
    $(pkg-config --cflags --libs megatron) -lm
is "$status:$err" "0:" "a program that trains is built"
megatron train "${args[@]}" --metrics-file command.json --save-weights command.st >/dev/null
run ./train "${args[@]}" --metrics-file library.json --save-weights library.st
is "$status" 0 "and trains" || diag "$err"
ok "cmp command.st library.st" "to the weights of megatron train, bit for bit"
run ./train "${args[@]}" --exit-duration-in-mins 0
is "$status" 75 "a run that is stopped early says so"
run ./train "${args[@]}" --bogus
is "$status:$(grep -c . <<<"$err")" "1:1" "wrong arguments are one line" || diag "$err"
like "$err" "^library-train: .*[-]-bogus" "that names them"
if mpi_available; then
    run mpi_run 2 ./train "${args[@]}" --tensor-model-parallel-size 2 \
        --metrics-file two.json
    is "$status" 0 "two ranks train through the library" || diag "$err"
    same_metrics two.json command.json 1e-5 1e-4 "as one rank does"
    run mpi_run 2 ./train "${args[@]}" --bogus
    is "$(grep -c '^library-train: ' <<<"$err")" 1 "two ranks with wrong arguments say it once"
else
    skip 3 "no MPI"
fi
done_testing
