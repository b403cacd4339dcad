#!/bin/bash
# Models of today's layers, from the reference data: ten steps that Megatron-LM itself took, with
# the arguments that it had, on one rank and on several.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/ranks.sh"
. "$MG_SRCDIR/tests/lib/train.sh"

[ -r "$MG_SHARED/golden/12_modern_llama.json" ] || skip_all "no reference data in $MG_SHARED"

for name in llama qwen yarn mla mtp; do
    golden=$MG_SHARED/golden/12_modern_$name
    golden_run "$golden"
    run megatron train "${args[@]}" --micro-batch-size 4 --metrics-file m.json \
        --save-weights w.safetensors --save-gradients g.safetensors
    is "$status" 0 "$name: one rank trains" || diag "$err"
    same_metrics m.json "$golden.json:f64" 5e-6 5e-5 "$name: float64 reference"
    same_metrics m.json "$golden.json:f32_megatron_stack" 5e-6 5e-5 "$name: Megatron-LM"
    if [ "$name" = mtp ]; then
        ok "jq -e --slurpfile golden '$golden.json' -n '[inputs | .\"mtp_1 loss\" // empty] as \$x
            | [\$golden[0].mtp_f64[].loss_values[0]] as \$y | (\$x | length) == (\$y | length)
            and all(range (\$x | length); \$x[.] - \$y[.] | fabs < 5e-6)' m.json" \
            "$name: losses of the layer"
    fi
    same_weights g.safetensors "$golden.npz:grad0_f64_as_f32." 1e-5 "$name: gradients of step 1"
    same_weights w.safetensors "$golden.npz:final_f64_as_f32." 1e-4 "$name: weights at the end" \
        --absolute
    run megatron train "${args[@]}" --micro-batch-size 2 --metrics-file m.json
    same_metrics m.json "$golden.json:f32_megatron_stack_2_microbatches" 5e-6 5e-5 \
        "$name: two microbatches"
    if ranks_available; then
        for layout in "2 2 1" "4 2 2 --sequence-parallel --use-distributed-optimizer" \
                "4 1 2 --use-distributed-optimizer"; do
            read -r n tp pp more <<<"$layout"
            # shellcheck disable=SC2086 # words
            run ranks_run "$n" megatron train "${args[@]}" --micro-batch-size 1 \
                --tensor-model-parallel-size "$tp" --pipeline-model-parallel-size "$pp" $more \
                --metrics-file mn.json --save-weights wn.safetensors
            is "$status" 0 "$name: $n ranks, tp $tp pp $pp $more, train" || diag "$err"
            run megatron train "${args[@]}" --micro-batch-size 1 --metrics-file m1.json \
                --save-weights w1.safetensors
            same_metrics mn.json m1.json 5e-6 5e-5 "$name: tp $tp pp $pp $more, one rank"
            same_weights wn.safetensors w1.safetensors 1e-4 "$name: weights" --absolute
        done
    else
        skip 9 "neither UCX nor MPI"
    fi
done
done_testing
