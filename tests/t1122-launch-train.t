#!/bin/bash
# Training by megatron launch, with neither PMIx nor MPI in reach: layouts against one rank; a
# program of one's own; ranks that die; what is refused.
# MG_LONG=1: more layouts.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/train.sh"

[ -e "$MG_BUILDDIR/.libs/comm_ucx.so" ] || skip_all "the module for UCX was not built"
mkdir modules
ln -s "$MG_BUILDDIR/.libs/comm_ucx.so" modules
export MEGATRON_MODULE_DIR=$PWD/modules OMP_NUM_THREADS=1
tokenized_text 40
args=(--num-layers 4 --hidden-size 32 --num-attention-heads 4 --seq-length 16
      --tokenizer-type ByteLevel --data-path text_text_document --split 100,0,0
      --micro-batch-size 1 --global-batch-size 8 --train-iters 6 --lr 1e-3 --eval-iters 0)
run megatron train "${args[@]}" --metrics-file one.json --save-weights one.st
is "$status" 0 "one rank" || diag "$err"
layouts=("2 --megatron-tp=2" "4 --megatron-tp=2 --megatron-pp=2" "4 --megatron-pp=2")
[ -z "${MG_LONG:-}" ] || layouts+=("8 --megatron-tp=2 --megatron-pp=2" "8 --megatron-tp=4"
                                   "4 --megatron-cp=2 --megatron-tp=2" "16 --megatron-tp=4 --megatron-pp=4")
for layout in "${layouts[@]}"; do
    read -r n sizes <<<"$layout"
    read -ra sizes <<<"$sizes"
    run megatron launch -n "$n" "${sizes[@]}" megatron train "${args[@]}" --metrics-file n.json --save-weights n.st
    is "$status:$err" "0:" "$layout"
    is "$(grep -c '\] iteration ' <<<"$out")" 6 "one rank prints the iterations"
    same_metrics n.json one.json 1e-5 1e-4 "against one rank"
    same_weights n.st one.st 1e-4 "weights at the end" --skip-key-bias 4
done
run megatron launch -n 2 --megatron-tp=2 megatron train "${args[@]}" --distributed-backend mpi
ok "[ $status != 0 ]" "MPI is refused"
like "$err" "MPI does not start under MEGATRON_BOOTSTRAP=env: want the transport ucx" "by name"
run megatron launch -n 2 --megatron-tp=2 megatron train "${args[@]}" --tensor-model-parallel-size 1
ok "[ $status != 0 ]" "a contradiction to the sizes is refused"
like "$err" "contradicts" "by name"

# a rank that is killed while it trains
megatron launch -n 3 megatron train "${args[@]}" --global-batch-size 3 --train-iters 100000 >die.out 2>die.err &
pid=$!
until_iteration 3 die.out "$pid"
victim=$(pgrep -P "$pid" -x megatron | sed -n 2p)
kill -KILL "$victim"
rc=0
wait "$pid" || rc=$?
is "$rc" 137 "a rank is killed"
like "$(cat die.err)" "megatron launch: rank [0-2] was ended by signal 9" "which a line says"
ok '[ -z "$(pgrep -f "^megatron train .*$TEST_DIR")" ]' "none stays"

rm modules/comm_ucx.so
run megatron launch -n 2 megatron train "${args[@]}"
ok "[ $status != 0 ]" "without the module for UCX"
like "$err" "there is no .*comm_ucx.so; ranks talk through UCX: install libucx-dev" "it is asked for"
done_testing
