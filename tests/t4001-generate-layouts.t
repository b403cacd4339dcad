#!/bin/bash
# megatron generate on several ranks: the tokens of one rank, drawn and greedy.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/ranks.sh"

hf=$MG_SHARED/golden/14_hf
[ -d "$hf" ] || skip_all "no reference data in $MG_SHARED"
ranks_need

seed_draws
layouts=("gpt2 2 tp=2" "gpt2 2 pp=2" "llama 4 tp=2 pp=2" "deepseek_v3 2 pp=2" "deepseek_v3 2 tp=2"
         "mixtral 2 ep=2" "mixtral 4 tp=2 ep=2" "mixtral 4 ep=2 pp=2" "qwen3_moe 2 tp=2" "qwen3 4 tp=4"
         "mistral_window 2 tp=2")
some 5 "${layouts[@]}"
for layout in "${some[@]}"; do
    read -r name ranks sizes <<<"$layout"
    args=(--load "$hf/$name" --num-tokens-to-generate 8 --ignore-eos --seed 5 --json
          --prompt-tokens 1,2,3,4,5,6,7,8,9 --prompt-tokens 11 --prompt-tokens 20,3,17
          --inference-max-requests 2 --inference-dynamic-batching-max-tokens 4)
    words=()
    for size in $sizes; do
        case $size in
            tp=*) words+=(--tensor-model-parallel-size "${size#*=}") ;;
            pp=*) words+=(--pipeline-model-parallel-size "${size#*=}") ;;
            ep=*) words+=(--expert-model-parallel-size "${size#*=}") ;;
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
done_testing
