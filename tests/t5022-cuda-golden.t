#!/bin/bash
# The CUDA device on the double against the reference data: models that Megatron-LM trained, texts and
# scores, figures of an evaluation.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/train.sh"
. "$MG_SRCDIR/tests/lib/cuda.sh"

data=$MG_SHARED/golden
[ -r "$data/11_tiny_gpt.json" ] || skip_all "no reference data in $MG_SHARED"
seed_draws

# ---- ten steps
some 2 11_tiny_gpt 12_modern_{llama,qwen,yarn,mla,mtp} 11_tiny_moe_gpt \
    12_modern_moe_{mixtral,deepseek,capacity}
for name in "${some[@]}"; do
    golden=$data/$name
    golden_run "$golden"
    train "$name" megatron train "${args[@]}" --micro-batch-size 4 --device cuda
    is "$status" 0 "$name: trains"
    # The choices of routers part runs that differ in the last bits.
    tolerances=(5e-6 5e-5)
    [[ $name != *moe* ]] || tolerances=(1e-5 1e-4)
    same_metrics "$name.json" "$golden.json:f64" "${tolerances[@]}" "$name: float64 reference"
    want=final_f64_as_f32 more=()
    [ "$name" != 11_tiny_gpt ] || want=final_f64 more=(--skip-key-bias 4)
    [[ $name != *modern_moe* ]] || more=(--skip expert_bias)
    same_weights "$name.st" "$golden.npz:$want." 1e-4 "$name: weights at the end" --absolute \
        "${more[@]}"
done

# ---- texts and scores: tokens of the CPU, log probabilities to 1e-5
few=(--inference-dynamic-batching-max-tokens 24 --inference-max-requests 3
     --inference-max-seq-length 32)
prompts=(--prompt-tokens 3,1,4,1,5,9,2,6 --prompt-tokens 27 --prompt-tokens 18,28,18 --prompt-tokens
         "$(seq -s , 1 22)")
# written NAME DEVICE ARGUMENT...
written() {
    local to=$1 device=$2
    shift 2
    run megatron generate --load "$data/14_hf/$name" "${prompts[@]}" "${few[@]}" --ignore-eos \
        --num-tokens-to-generate 8 --return-log-probs --json --device "$device" "$@"
    echo "$out" >"$to"
    is "$status" 0 "$name: texts, device $device $*" || diag "$err"
}
near='length > 0 and all(range(length) as $i | $cpu[$i] as $want | .[$i]
    | (.tokens == $want.tokens) and ([.log_probs, $want.log_probs], [.prompt_log_probs,
      $want.prompt_log_probs] | transpose | all(.[0] - .[1] | fabs < 1e-5)); .)'
some 2 gpt2 llama llama3 mistral_window qwen2 qwen3 qwen3_moe mixtral deepseek_v3
for name in "${some[@]}"; do
    for how in "--temperature 0" "--temperature 0.8 --top-k 20 --top-p 0.9 --seed 5"; do
        # shellcheck disable=SC2086 # words
        written cpu.out cpu $how
        # shellcheck disable=SC2086 # words
        written cuda.out cuda $how
        ok "jq -es --slurpfile cpu cpu.out '$near' cuda.out" "$name: those of the CPU, $how" \
            || diag "$(cat cuda.out)"
    done
done

# ---- a steady pass or step allocates nothing, and does not ask what the device can do
modern_experts=(--num-experts 4 --moe-router-topk 2 --disable-bias-linear --swiglu)
# allocations COMMAND...: their numbers, and those of questions, are added to the file "count"
allocations() {
    run env MG_CUDA_COUNT="$PWD/count" "$@"
    is "$status" 0 "runs: ${*: -4}" || diag "$err"
}
for more in "" "${modern_experts[*]}"; do
    rm -f count
    for iters in 2 5; do
        # shellcheck disable=SC2086 # words
        allocations megatron train "${tiny_model[@]}" "${golden_optimizer[@]}" $more --seq-length 8 \
            --max-position-embeddings 8 --vocab-size 50 --mock-data --eval-iters 0 \
            --micro-batch-size 1 --global-batch-size 2 --train-iters $iters --device cuda
    done
    ok "[ \$(sort -u count | wc -l) = 1 ]" "no memory in further steps, no question about the device" || diag "$(cat count)"
done
rm -f count
for tokens in 3 9; do
    allocations megatron generate --load "$data/14_hf/llama" --prompt-tokens 1,2 "${few[@]}" \
        --ignore-eos --temperature 0 --num-tokens-to-generate $tokens --device cuda
done
ok "[ \$(sort -u count | wc -l) = 1 ]" "nor in further passes" || diag "$(cat count)"

# ---- how often the host waits for the device in a step
if long; then
    run env MG_TEST_DEVICE=cuda "$MG_BUILDDIR/tests/unit/train/waits.t"
    is "$status $(grep '^not ok\|^Bail' <<<"$out")" "0 " "waits of the host in a step" || diag "$out"
fi

# ---- figures
printf '%s\n' "the rank of a tensor is the rank of its model" "a layer has a norm and a head" >text
for device in cpu cuda; do
    run megatron eval --load "$data/11_tiny_gpt.init.safetensors" "${tiny_model[@]}" \
        --vocab-size 256 --max-position-embeddings 32 --tokenizer-type ByteLevel --task PERPLEXITY \
        --valid-data text --overlapping-eval 16 --micro-batch-size 2 --json --device $device
    is "$status" 0 "an evaluation, device $device" || diag "$err"
    echo "$out" >$device.figures
done
ok "jq -es '(.[0].tokens == .[1].tokens) and (.[0].loss / .[1].loss - 1 | fabs < 1e-6)' \
    cpu.figures cuda.figures" "with the figures of the CPU" || diag "$(cat ./*.figures)"
done_testing
