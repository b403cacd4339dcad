#!/bin/bash
# Training over UCX has the bits of training over MPI, in every kind of layout; the argument that
# chooses; MPI is out of reach in the runs over UCX.
# MG_LONG=1: all layouts.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/mpi.sh"
. "$MG_SRCDIR/tests/lib/train.sh"

mpi_available || skip_all "no MPI to compare with"
[ -e "$MG_BUILDDIR/.libs/comm_ucx.so" ] || skip_all "the module for UCX was not built"
mkdir modules
ln -s "$MG_BUILDDIR/.libs"/{comm_ucx,boot_pmix}.so modules
tokenized_text 40
args=(--num-layers 4 --hidden-size 16 --num-attention-heads 4 --ffn-hidden-size 32 --seq-length 16
      --tokenizer-type ByteLevel --data-path text_text_document --split 100,0,0
      --micro-batch-size 1 --global-batch-size 8 --train-iters 4 --lr 2e-3 --eval-iters 0)
moe="--num-experts 4 --moe-router-topk 2 --moe-router-load-balancing-type aux_loss --moe-aux-loss-coeff 0.01"

# ranks arguments
layouts=(
    "2 --tensor-model-parallel-size 2"
    "4 --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --sequence-parallel"
    "2 --pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 1"
    "4 --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather"
    "2 --context-parallel-size 2 --position-embedding-type rope"
    "4 --context-parallel-size 4 --cp-comm-type a2a --position-embedding-type rope"
    "4 --context-parallel-size 2 --cp-comm-type all_gather --tensor-model-parallel-size 2 --position-embedding-type rope"
    "4 --expert-model-parallel-size 4 $moe --moe-token-dispatcher-type alltoall"
    "4 --expert-model-parallel-size 2 $moe --moe-token-dispatcher-type allgather"
    "4 --expert-model-parallel-size 2 --tensor-model-parallel-size 2 --expert-tensor-parallel-size 1 --sequence-parallel $moe --moe-token-dispatcher-type alltoall"
    "2 --bf16 --tensor-model-parallel-size 2"
    "4 --fp16 --initial-loss-scale 65536 --pipeline-model-parallel-size 4"
    "4 --bf16 --use-distributed-optimizer --grad-reduce-in-bf16"
    "2 --attention-dropout 0.1 --hidden-dropout 0.1 --tensor-model-parallel-size 2"
    "8 --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2"
    "4 --pipeline-model-parallel-size 4 --recompute-granularity full --recompute-method uniform --recompute-num-layers 1"
    "2 --tensor-model-parallel-size 2 --sequence-parallel --cuda-graph-impl full_iteration --cuda-graph-warmup-steps 1"
    "2 --pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 1 --cuda-graph-impl local --cuda-graph-warmup-steps 1"
)
if [ -z "${MG_LONG:-}" ]; then
    seed_draws
    some 3 "${!layouts[@]}"
else
    some=("${!layouts[@]}")
fi
for i in "${some[@]}"; do
    read -r n more <<<"${layouts[i]}"
    read -ra more <<<"$more"
    train mpi mpi_run "$n" megatron train "${args[@]}" --distributed-backend mpi "${more[@]}"
    is "$status" 0 "over MPI: $n ranks ${more[*]}"
    MEGATRON_MODULE_DIR=$PWD/modules \
        train ucx mpi_run "$n" megatron train "${args[@]}" --distributed-backend ucx "${more[@]}"
    is "$status" 0 "over UCX"
    same_bits ucx mpi "the same bits"
done
train both mpi_run 2 megatron train "${args[@]}" --distributed-backend ucx
is "$status" 0 "beside MPI's module, UCX is taken where it is asked for"
mkdir broken
ln -s "$MG_BUILDDIR/.libs"/{comm_ucx,boot_pmix}.so broken
: >broken/comm_mpi.so
MEGATRON_MODULE_DIR=$PWD/broken train alone mpi_run 2 megatron train "${args[@]}" --distributed-backend ucx
is "$status" 0 "and MPI's module is not opened"
same_bits both alone "the same bits"
MEGATRON_MODULE_DIR=$PWD/modules train ucx mpi_run 2 megatron train "${args[@]}" --distributed-backend gloo
is "$status" 0 "without MPI's module UCX is the default"
like "$out" "--distributed-backend gloo \(ranks talk through the default transport" "which a line tells"
train mpi mpi_run 2 megatron train "${args[@]}"
same_bits ucx mpi "the same bits as over the other default"
MEGATRON_MODULE_DIR=$PWD/modules run mpi_run 2 megatron train "${args[@]}" --distributed-backend mpi
ok "[ $status != 0 ]" "MPI is asked for, and not there"
like "$err" "there is no .*comm_mpi.so; ranks talk through MPI: install" "says what to install"
run megatron train "${args[@]}" --distributed-backend tcp
is "$status" 2 "another name"
is "$err" 'megatron train: --distributed-backend: "tcp" is not mpi, ucx or nccl; gloo, and nccl without --device cuda, stand for the default' "is refused"
done_testing
