#!/bin/bash
# megatron generate on several ranks: the tokens of one rank, drawn and greedy.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/ranks.sh"

hf=$MG_SHARED/golden/14_hf
[ -d "$hf" ] || skip_all "no reference data in $MG_SHARED"
ranks_need

# weights NAME ARGUMENT...: a model of four layers, of which some have windows
weights() {
    megatron train --num-layers 4 --hidden-size 32 --num-attention-heads 4 --seq-length 64 \
        --position-embedding-type rope --vocab-size 96 --init-method-std 0.3 --mock-data --lr 1e-9 \
        --micro-batch-size 1 --train-iters 1 --eval-iters 0 --disable-bias-linear \
        --window-size 5,0 --window-attn-skip-freq 2 --save-weights "$1" "${@:2}" >train.txt 2>&1 \
        || diag "$(cat train.txt)"
}
weights windows
weights windows_moe --num-experts 4 --moe-router-topk 2 --moe-layer-freq 2

seed_draws
layouts=("gpt2 2 tp=2" "gpt2 2 pp=2" "llama 4 tp=2 pp=2" "deepseek_v3 2 pp=2" "deepseek_v3 2 tp=2"
         "mixtral 2 ep=2" "mixtral 4 tp=2 ep=2" "mixtral 4 ep=2 pp=2" "qwen3_moe 2 tp=2" "qwen3 4 tp=4"
         "mistral_window 2 tp=2" "mixtral 2 tp=2 etp=1 ep=2" "mixtral 2 etp=2" "mixtral 4 tp=2 etp=1 ep=4"
         "windows 2 pp=2 vpp=2" "windows 4 tp=2 pp=2 vpp=2" "windows 2 tp=2"
         "windows 2 pp=2 grouped" "windows_moe 4 tp=2 etp=1 ep=2 pp=2 grouped"
         "windows_moe 4 tp=2 etp=1 ep=2 pp=2 vpp=2" "windows_moe 4 etp=2 ep=2")
some 8 "${layouts[@]}"
for layout in "${some[@]}"; do
    read -r name ranks sizes <<<"$layout"
    load=$hf/$name
    [ ! -e "$name" ] || load=$name
    args=(--load "$load" --num-tokens-to-generate 8 --ignore-eos --seed 5 --json
          --prompt-tokens 1,2,3,4,5,6,7,8,9 --prompt-tokens 11 --prompt-tokens 20,3,17
          --inference-max-requests 2 --inference-dynamic-batching-max-tokens 4)
    words=()
    for size in $sizes; do
        case $size in
            tp=*) words+=(--tensor-model-parallel-size "${size#*=}") ;;
            pp=*) words+=(--pipeline-model-parallel-size "${size#*=}") ;;
            ep=*) words+=(--expert-model-parallel-size "${size#*=}") ;;
            etp=*) words+=(--expert-tensor-parallel-size "${size#*=}") ;;
            vpp=*) words+=(--num-virtual-stages-per-pipeline-rank "${size#*=}") ;;
            grouped) words+=(--no-overlap-p2p-communication) ;;
        esac
    done
    for how in "--temperature 0" "--temperature 0.8 --top-p 0.9"; do
        # shellcheck disable=SC2086 # words
        run megatron generate "${args[@]}" $how
        alone=$out
        # shellcheck disable=SC2086
        run ranks_run "$ranks" megatron generate "${args[@]}" $how "${words[@]}"
        is "$status:$out" "0:$alone" "$layout, $how" || diag "$err"
    done
done

# ---- virtual stages: of the job, which generation does without; of a layout, whose layers are not
# one behind the other

args=(--load windows --num-tokens-to-generate 8 --ignore-eos --prompt-tokens 1,2,3,4,5,6,7,8,9)
run megatron generate "${args[@]}" --seed 2
alone=$out
export MEGATRON_PP=2 MEGATRON_VPP=2
run ranks_run 2 megatron generate "${args[@]}" --seed 2
unset MEGATRON_PP MEGATRON_VPP
is "$status:$out" "0:$alone" "virtual stages of the job" || diag "$err"
run ranks_run 2 megatron generate "${args[@]}" --pipeline-model-parallel-size 2 \
    --pipeline-model-parallel-layout "Et|t|t|tL"
like "$status $err" "2 .*layout has 2 virtual stages on a rank" "virtual stages of a layout" \
    || diag "$err"
run ranks_run 2 megatron generate "${args[@]}" --seed 2 --pipeline-model-parallel-size 2 \
    --pipeline-model-parallel-layout "Et|tttL"
is "$status:$out" "0:$alone" "a layout without them" || diag "$err"

# ---- weights that are stored in float8: those of an update that rounds them

float8=(--bf16 --use-distributed-optimizer --fp8-param-gather)
scores=(--load windows --prompt-tokens "$(seq -s, 3 40)" --num-tokens-to-generate 0 --json
        --return-log-probs --inference-dynamic-batching-max-tokens)
run megatron generate "${scores[@]}" 512 "${float8[@]}"
jq -c .prompt_log_probs <<<"$out" >whole
for how in "1" "2 --tensor-model-parallel-size 2" "2 --pipeline-model-parallel-size 2"; do
    read -r ranks words <<<"$how"
    # shellcheck disable=SC2086 # words
    run ranks_run "$ranks" megatron generate "${scores[@]}" 9 "${float8[@]}" $words
    jq -c .prompt_log_probs <<<"$out" >pieces
    ok "jq -es '.[0] as \$a | .[1] as \$b | (\$a | length) == 37 and
        all(range(37) as \$i | \$a[\$i] - \$b[\$i]; fabs < 0.1)' whole pieces" \
        "float8: pieces have the log probabilities of whole passes: $how" || diag "$err"
done
run megatron generate "${scores[@]}" 512
jq -c .prompt_log_probs <<<"$out" >exact
ok "jq -es '.[0] as \$a | .[1] as \$b | [range(37) as \$i | \$a[\$i] - \$b[\$i] | fabs] | max
    | . > 0.02 and . < 2' whole exact" "float8: which are near those of the weights in float32"
done_testing
