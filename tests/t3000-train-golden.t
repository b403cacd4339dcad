#!/bin/bash
# The tiny GPT of the reference data: ten steps that Megatron-LM itself took, on one rank
# and on several.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/mpi.sh"
. "$MG_SRCDIR/tests/lib/train.sh"

golden=$MG_SHARED/golden/11_tiny_gpt
[ -r "$golden.json" ] || skip_all "no reference data in $MG_SHARED"

golden_run "$golden"

run megatron train "${args[@]}" --micro-batch-size 4 --metrics-file m.json \
    --save-weights w.safetensors --save-gradients g.safetensors
is "$status" 0 "one rank trains" || diag "$err"
same_metrics m.json "$golden.json:f32_megatron_stack" 5e-6 5e-5 "float32 Megatron-LM"
same_metrics m.json "$golden.json:f64" 5e-6 5e-5 "float64 reference"
same_weights g.safetensors "$golden.npz:grad0_f64_as_f32." 1e-5 "float64 gradients of step 1"
same_weights w.safetensors "$golden.npz:final_f64." 2e-5 "float64 weights after step 10" \
    --absolute --skip-key-bias 4

if mpi_available; then
    for layout in "2 2 1" "2 1 2" "4 2 2"; do
        read -r n tp pp <<<"$layout"
        run mpi_run "$n" megatron train "${args[@]}" --micro-batch-size 1 \
            --tensor-model-parallel-size "$tp" --pipeline-model-parallel-size "$pp" \
            --metrics-file mn.json --save-weights wn.safetensors
        is "$status" 0 "$n ranks, tp $tp pp $pp, train" || diag "$err"
        run megatron train "${args[@]}" --micro-batch-size 1 --metrics-file m1.json \
            --save-weights w1.safetensors
        same_metrics mn.json m1.json 5e-6 5e-5 "tp $tp pp $pp against one rank"
        same_weights wn.safetensors w1.safetensors 1e-4 "tp $tp pp $pp weights" \
            --skip-key-bias 4
    done
else
    skip 12 "no MPI"
fi
done_testing
