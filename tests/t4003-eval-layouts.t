#!/bin/bash
# megatron eval on several ranks: the figures of one rank, under every kind of layout.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/ranks.sh"

hf=$MG_SHARED/golden/14_hf
[ -d "$hf" ] || skip_all "no reference data in $MG_SHARED"
ranks_need

# Texts of different lengths, more than a batch of some layouts has; 13 is no multiple of the others.
for ((i = 0; i < 13; i++)); do
    jq -cn --argjson i "$i" '[range(9 + $i % 5) | (. * 7 + $i * 3) % 60]
        | {tokens: .[:3], labels: .[3:]}'
done >texts

# A model of four layers, and a text in windows.
for ((i = 0; i < 60; i++)); do echo "$i and $((i + 1)) are numbers . "; done >text
run megatron data tokenize --input text --output-prefix text --append-eod
run megatron train --num-layers 4 --hidden-size 32 --num-attention-heads 4 --seq-length 32 \
    --tokenizer-type ByteLevel --data-path text_text_document --micro-batch-size 4 \
    --train-iters 6 --lr 5e-3 --lr-decay-style constant --split 100,0,0 --eval-iters 0 --save ck
is "$status" 0 "a model is trained" || diag "$err"
# the logits of another are all equal
run megatron train --num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 16 \
    --vocab-size 60 --mock-data --micro-batch-size 2 --train-iters 1 --lr 1e-9 --init-method-std 0 \
    --eval-iters 0 --save equal
for id in 0 1 40; do echo "{\"tokens\": [3, 4], \"labels\": [$id]}"; done >ties

text=(--load ck --tokenizer-type ByteLevel --task WIKITEXT103 --valid-data text --overlapping-eval 12)
declare -A alone
measure() { # measure WHAT COMMAND...: the figures of a model, on one line
    local what=$1
    shift
    case $what in
        text) run "$@" megatron eval "${text[@]}" "${words[@]}" --json ;;
        ties) run "$@" megatron eval --load equal --task LAMBADA --valid-data ties \
                  "${words[@]}" --json ;;
        *) run "$@" megatron eval --load "$hf/$what" --task LAMBADA --valid-data texts \
               --seq-length 16 "${words[@]}" --json ;;
    esac
}

words=()
measure ties
alone[ties]=$out
is "$(jq .accuracy <<<"$out")" 0.3333333333333333 "the lowest id among equals" || diag "$err"

seed_draws
layouts=("text 2 pp=2" "text 2 tp=2" "text 2 cp=2" "text 2 pp=2 stages=2" "text 3 mbs=2"
         "text 4 tp=2 pp=2 sp" "text 4 cp=2 tp=2" "text 4 pp=2 mbs=3" "ties 2 tp=2" "ties 4 tp=4"
         "gpt2 2 tp=2" "llama 4 tp=2 pp=2" "deepseek_v3 2 tp=2" "mixtral 2 ep=2"
         "mixtral 4 tp=2 ep=2 mbs=2" "qwen3_moe 2 mbs=4" "mistral_window 2 pp=2"
         "text 4 pp=4 grouped" "text 2 pp=2 stages=2 grouped")
some 9 "${layouts[@]}"
for layout in "${some[@]}"; do
    read -r what ranks sizes <<<"$layout"
    words=()
    if [ -z "${alone[$what]:-}" ]; then
        measure "$what"
        alone[$what]=$out
    fi
    for size in $sizes; do
        case $size in
            tp=*) words+=(--tensor-model-parallel-size "${size#*=}") ;;
            pp=*) words+=(--pipeline-model-parallel-size "${size#*=}") ;;
            cp=*) words+=(--context-parallel-size "${size#*=}") ;;
            ep=*) words+=(--expert-model-parallel-size "${size#*=}") ;;
            mbs=*) words+=(--micro-batch-size "${size#*=}") ;;
            stages=*) words+=(--num-virtual-stages-per-pipeline-rank "${size#*=}") ;;
            sp) words+=(--sequence-parallel) ;;
            grouped) words+=(--no-overlap-p2p-communication) ;;
        esac
    done
    measure "$what" ranks_run "$ranks"
    is "$status:$(wc -l <<<"$out")" 0:1 "$layout" || diag "$err"
    ok "jq -es --argjson alone '${alone[$what]}' '.[0] | .tokens == \$alone.tokens
        and (.accuracy == \$alone.accuracy or \$alone.accuracy == null)
        and (.loss / \$alone.loss - 1 | fabs < 1e-6)' <<<\"\$out\"" "the figures of one rank" \
        || diag "$out" "${alone[$what]}"
done
# what is wrong is said once, and ends all ranks
echo '{"tokens": [1]}' >bad
run ranks_run 2 megatron eval --load "$hf/gpt2" --task LAMBADA --valid-data bad --seq-length 16
ok "[ $status = 2 ] && [ \"\$(grep -c 'bad: line 1: want an object' <<<\"\$err\")\" = 1 ]" \
    "a bad file" || diag "$status: $err"
done_testing
