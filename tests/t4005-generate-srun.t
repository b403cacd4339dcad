#!/bin/bash
# One srun line generates: the plugin's sizes reach the run, each rank learns all tokens, and what
# is wrong with a prompt is one line of one rank.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/mpi.sh"
. "$MG_SRCDIR/tests/lib/slurm.sh"

hf=$MG_SHARED/golden/14_hf
[ -d "$hf" ] || skip_all "no reference data in $MG_SHARED"
mpi_available || skip_all "no MPI"
[ -e "$MG_BUILDDIR/plugin/.libs/megatron.so" ] || skip_all "the plugin is not built"
slurm_start 2

args=(--load "$hf/llama" --num-tokens-to-generate 8 --ignore-eos --seed 5 --json
      --prompt-tokens 1,2,3,4,5,6,7,8,9 --prompt-tokens 11 --prompt-tokens 20,3,17
      --inference-max-requests 2 --inference-dynamic-batching-max-tokens 4)
run megatron generate "${args[@]}" --top-p 0.9
is "$status" 0 "one rank" || diag "$err"
alone=$out
run srun -Q -N2 --ntasks-per-node=2 --megatron-tp=2 --megatron-pp=2 megatron generate \
    "${args[@]}" --top-p 0.9
is "$status:$out" "0:$alone" "srun: the texts of one rank, printed once" || diag "$err"
like "$err" "4 ranks = tp 2 x pp 2 x dp 1" "the plugin's sizes reach the run"
is "$(sed -n 's/.*bytes of rank 0: .*caches \([0-9]*\),.*/\1/p' <<<"$err")" \
    "$(megatron plan memory --use-checkpoint-args --load-weights "$hf/llama" \
        --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --rank 0 --threads 1 \
        --inference-max-requests 2 --inference-dynamic-batching-max-tokens 4 \
        | awk '$1 == "caches" { print $2 }')" "caches as planned"
slurm_settle
run srun -Q -N2 --ntasks-per-node=2 --megatron-tp=2 megatron generate "${args[@]}" \
    --prompt-tokens 1,96
is "$status:$(grep -c '^megatron generate: ' <<<"$err")" 2:1 "a prompt that does not fit" \
    || diag "$err"
like "$err" "token 1 of the prompt is 96, want 0 to 95" "says why"
done_testing
