#!/bin/bash
# The memory of megatron generate and eval: what is planned is what is said and allocated, caches
# have the bytes that follow from the model, a steady pass allocates nothing, and a pipeline that
# evaluates has the slots of forward passes alone.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/ranks.sh"

hf=$MG_SHARED/golden/14_hf
[ -d "$hf" ] || skip_all "no reference data in $MG_SHARED"
export OMP_NUM_THREADS=1

# said: the bytes by kind that a run says of rank 0, "KIND BYTES" a line
said() {
    sed -n 's/.*bytes of rank 0: //p' <<<"$1" | sed 's/, /\n/g' | grep -v '^planned\|^allocated'
}

# planned PLAN: the same of a plan of rank 0
planned() {
    jq -r '.ranks[0] | to_entries[] | select (.key | IN ("parameters", "activations", "caches",
        "workspace", "kernel_scratch", "communication", "staging"))
        | select (.value > 0) | "\(.key) \(.value)"' <<<"$1" | tr _ ' '
}

# weights NAME ARGUMENT...: a model of four layers
weights() {
    megatron train --num-layers 4 --hidden-size 32 --num-attention-heads 4 --seq-length 64 \
        --position-embedding-type rope --vocab-size 96 --mock-data --lr 1e-9 --micro-batch-size 1 \
        --train-iters 1 --eval-iters 0 --disable-bias-linear --save-weights "$1" "${@:2}" \
        >train.txt 2>&1 || diag "$(cat train.txt)"
}
weights windows --window-size 5,0 --window-attn-skip-freq 2 --group-query-attention \
    --num-query-groups 2

# ---- a run and its plan

# equal CACHES MODEL RANKS "ARGUMENT..." [SIZE...]: a rank has so many bytes of caches
equal() {
    local want=$1 name=$2 ranks=$3 args size=(--inference-max-requests 3
                                              --inference-dynamic-batching-max-tokens 16)
    read -ra args <<<"$4"
    shift 4
    size+=("$@")
    [ -e "$name" ] || name=$hf/$name
    run ranks_run "$ranks" megatron generate --load "$name" "${args[@]}" "${size[@]}" \
        --prompt-tokens 1,2,3 --num-tokens-to-generate 2
    is "$status" 0 "${name##*/}, $ranks ranks ${args[*]} $*" || diag "$err"
    as_planned "$name" "$ranks" "${args[@]}" "${size[@]}"
    is "$(sed -n 's/^caches //p' said)" "$want" "$want bytes of caches"
}

# as_planned NAME RANKS ARGUMENT...: the run that has left $err; leaves $plan
as_planned() {
    plan=$(megatron plan memory --load-weights "$1" --use-checkpoint-args "${@:3}" --threads 1 \
        --world-size "$2" --json)
    said "$err" | sort >said
    planned "$plan" | sort >planned
    ok "[ -s said ]" "bytes are said"
    is "$(cat said)" "$(cat planned)" "what is planned is what is said"
    is "$(jq '.ranks[0].total' <<<"$plan") $(sed -n 's/.*, allocated \([0-9]*\)$/\1/p' <<<"$err")" \
        "$(sed -n 's/.*planned \([0-9]*\), allocated \([0-9]*\)$/\1 \2/p' <<<"$err")" \
        "of so many bytes" || diag "$err"
    ok "grep -q 'planned \([0-9]*\), allocated \1\$' <<<\"\$err\"" "which are allocated"
}

# evaluated SLOTS MODEL RANKS "ARGUMENT...": a rank has so many slots in its pools
evaluated() {
    local slots=$1 name=$2 ranks=$3 args
    read -ra args <<<"$4"
    [ -e "$name" ] || name=$hf/$name
    run ranks_run "$ranks" megatron eval --load "$name" --task PERPLEXITY --valid-data text \
        --tokenizer-type ByteLevel "${args[@]}"
    is "$status" 0 "eval: $2, $ranks ranks ${args[*]}" || diag "$err"
    as_planned "$name" "$ranks" "${args[@]}" --task perplexity
    is "$(jq -c '[.ranks[].pools[].slots]' <<<"$plan")" "$slots" "slots: $slots"
}

# layers x requests x positions x (keys and values of the rank's groups) x bytes of a number
equal $((2 * 3 * 32 * 2 * 32 * 4)) gpt2 1 ""
equal $((2 * 3 * 20 * 2 * 32 * 4)) gpt2 1 "" --inference-max-seq-length 20
equal $((2 * 3 * 64 * 2 * 2 * 8 * 4)) llama 1 "" --return-log-probs
equal $((2 * 3 * 64 * 2 * 2 * 8 * 2)) llama 1 "--bf16"
equal $((2 * 3 * 64 * 2 * 2 * 8 * 2)) llama 1 "--bf16 --use-distributed-optimizer --fp8-param-gather"
equal $((2 * 3 * (5 + 16) * 2 * 2 * 8 * 4)) mistral_window 1 ""
equal $(((2 * (5 + 16) + 2 * 64) * 3 * 2 * 2 * 8 * 4)) windows 1 ""
latent=$(jq '.kv_lora_rank + .qk_rope_head_dim' "$hf/deepseek_v3/config.json")
layers=$(jq .num_hidden_layers "$hf/deepseek_v3/config.json")
equal $((layers * 3 * 64 * latent * 4)) deepseek_v3 1 ""
if ranks_available; then
    equal $((2 * 3 * 64 * 2 * 8 * 4)) llama 2 "--tensor-model-parallel-size 2"
    equal $((2 * 3 * 64 * 2 * 8 * 4)) llama 4 "--tensor-model-parallel-size 4" --return-log-probs
    equal $((3 * 64 * 2 * 2 * 8 * 4)) llama 2 "--pipeline-model-parallel-size 2"
    equal $(((5 + 16 + 64) * 3 * 2 * 2 * 8 * 4)) windows 2 \
        "--pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2"
    equal $((layers * 3 * 64 * latent * 4)) deepseek_v3 2 "--tensor-model-parallel-size 2"
    equal $((2 * 3 * 64 * 2 * 2 * 8 * 4)) mixtral 2 "--expert-model-parallel-size 2"
fi

# ---- an evaluation

seq 40 | tr '\n' ' ' >text
evaluated '[1]' llama 1 "--seq-length 32"
evaluated '[1]' gpt2 1 "--bf16 --micro-batch-size 3 --seq-length 16"
if ranks_available; then
    evaluated '[2,2,2,2]' windows 4 "--pipeline-model-parallel-size 4 --seq-length 32"
    evaluated '[1,1]' llama 2 "--tensor-model-parallel-size 2 --global-batch-size 4 --seq-length 8"
fi

# ---- the plan alone

model=(--num-layers 2 --hidden-size 32 --num-attention-heads 4 --vocab-size 96)
run megatron plan memory "${model[@]}" --seq-length 40 --inference-max-requests 5
like "$status $out" "0 .*  caches  *$((2 * 5 * 40 * 2 * 32 * 4))" \
    "a model of arguments has the positions of its sequences" || diag "$err"
run megatron plan memory "${model[@]}" --max-position-embeddings 40 --return-log-probs
like "$status $out" "0 .*  caches  *$((2 * 8 * 40 * 2 * 32 * 4))" "or those that it can have" \
    || diag "$err"
like "$(megatron plan memory "${model[@]}" --seq-length 40 --micro-batch-size 1)" \
    "  caches  *0" "a run that trains has no caches"
few=$(megatron plan memory "${model[@]}" --seq-length 40 --inference-dynamic-batching-max-tokens 16 \
    | awk '$1 == "workspace" { print $2 }')
more=$(megatron plan memory "${model[@]}" --seq-length 40 \
    --inference-dynamic-batching-max-tokens 32 | awk '$1 == "workspace" { print $2 }')
ok "[ ${few:-0} -gt 0 ] && [ ${more:-0} -gt ${few:-0} ]" "a pass of more rows has more workspace"
# refused STATUS TEXT ARGUMENT...
refused() {
    local want=$1 text=$2
    run megatron plan memory "${@:3}"
    is "$status:$(wc -l <<<"$err")" "$want:1" "one line: $err"
    like "$err" "$text" "which says it"
}
refused 2 "choices and --fit are about runs that train" "${model[@]}" --seq-length 40 --choices \
    --inference-max-requests 5
refused 2 "choices and --fit are about runs that train" "${model[@]}" --task LAMBADA --choices
refused 2 "task is about megatron eval, and another" "${model[@]}" --task LAMBADA \
    --inference-max-requests 5
refused 2 "task" "${model[@]}" --task LAMBDA
refused 2 "num-layers of the model is missing" --task LAMBADA
refused 2 "num-layers of the model is missing" --inference-max-requests 5
refused 2 "inference-max-requests" "${model[@]}" --inference-max-requests 0
refused 1 "at least one for each of 8 requests" "${model[@]}" --seq-length 40 \
    --inference-dynamic-batching-max-tokens 4
run megatron generate --load "$hf/llama" --prompt-tokens 1,2 --inference-max-requests 65536 \
    --inference-dynamic-batching-max-tokens 2000000000
like "$status:$(wc -l <<<"$err"):$err" "^[12]:1:.*(rows|GiB are needed)" "more than there is"

# ---- a steady pass allocates nothing of ours

counter=$MG_BUILDDIR/tests/lib/.libs/count-allocs.so
[ -e "$counter" ] && ! ldd "$MG_BUILDDIR/megatron" | grep -q 'lib[at]san' \
    || { skip 1 "no counter, or a sanitizer counts already"; done_testing; exit; }

# allocations TOKENS COMMAND...: "CALLER COUNT" of all ranks together
allocations() {
    local tokens=$1
    shift
    rm -f count.*
    run "$@" env MG_COUNT_ALLOCS="$TEST_DIR/count" LD_PRELOAD="$counter" megatron generate \
        --ignore-eos --inference-max-requests 2 --inference-dynamic-batching-max-tokens 4 \
        "${args[@]}" --num-tokens-to-generate "$tokens"
    [ "$status" = 0 ] || diag "$err"
    cat count.* | awk '{ n[$2] += $1 } END { for (k in n) print k, n[k] }' | sort
}

# steady TEXT COMMAND...: passes for more tokens allocate nothing more
steady() {
    local text=$1
    shift
    allocations 4 "$@" >short
    allocations 12 "$@" >long
    ok "[ $(wc -l <short) -gt 40 ]" "$text: callers are seen: $(wc -l <short)"
    is "$(diff short long)" "" "$text: 8 tokens more of each text allocate nothing more"
}
prompts=(--prompt-tokens 1,2,3,4,5,6,7,8,9 --prompt-tokens 7 --prompt-tokens 5,6,7)
args=(--load "$hf/llama" "${prompts[@]}" --temperature 0.8 --top-p 0.9)
steady "one rank" env
args=(--load "$hf/deepseek_v3" "${prompts[@]}" --return-log-probs --top-n-logprobs 3)
steady "latents and experts" env
args=(--load windows "${prompts[@]}" --temperature 0)
steady "windows" env
if ranks_available; then
    args=(--load "$hf/llama" "${prompts[@]}" --tensor-model-parallel-size 2)
    steady "tp 2" ranks_run 2
    args=(--load "$hf/llama" "${prompts[@]}" --pipeline-model-parallel-size 2)
    steady "pp 2" ranks_run 2
    args=(--load "$hf/mixtral" "${prompts[@]}" --expert-model-parallel-size 2)
    steady "ep 2" ranks_run 2
fi
done_testing
