#!/bin/bash
# megatron eval: figures of the reference data, losses against the scores of megatron generate,
# HellaSwag by the harness's own slicing, ties, checkpoints, refusals.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"

golden=$MG_SHARED/golden/16_eval.json
weights=$MG_SHARED/golden/11_tiny_gpt.init.safetensors
hf=$MG_SHARED/golden/14_hf
[ -r "$golden" ] || skip_all "no reference data in $MG_SHARED"

# evaluate ARG...: run it; the figures are in ./figures
evaluate() {
    run megatron eval "$@" --json
    echo "$out" >figures
}

# near FILTER WANT TOLERANCE TEXT: a figure, by a relative error
near() {
    ok "jq -es --argjson want '$2' '.[0] | $1 / \$want - 1 | fabs < $3' figures" "$4" \
        || diag "$(cat figures)" "$err"
}

tiny=(--num-layers 2 --hidden-size 64 --num-attention-heads 4 --max-position-embeddings 32
      --vocab-size 256)

# ---- reference data; the tokenizer, of 256 bytes, has no token that ends a document

mkdir model
cp "$weights" model/model.safetensors
jq -n '[[range(33; 127)], [range(161; 173)], [range(174; 256)] | .[]] as $shown
    | reduce range(256) as $b ({ next: 256, vocab: {} };
        if $shown | index($b) then .vocab[[$b] | implode] = $b
        else .vocab[[.next] | implode] = $b | .next += 1 end)
    | { version: "1.0", truncation: null, padding: null, added_tokens: [], normalizer: null,
        pre_tokenizer: { type: "ByteLevel", add_prefix_space: false, trim_offsets: true,
                         use_regex: true },
        post_processor: null,
        decoder: { type: "ByteLevel", add_prefix_space: true, trim_offsets: true, use_regex: true },
        model: { type: "BPE", dropout: null, unk_token: null, continuing_subword_prefix: null,
                 end_of_word_suffix: null, fuse_unk: false, byte_fallback: false,
                 vocab: .vocab, merges: [] } }' >model/tokenizer.json
jq -j .end_to_end.file_text "$golden" >text
bytes=$(wc -c <text)
words=$(jq .end_to_end.num_original_tokens "$golden")
n=$(jq '.end_to_end.f64 | length' "$golden")
for ((i = 0; i < n; i++)); do
    want=$(jq -c ".end_to_end.f64[$i]" "$golden")
    overlap=$(jq .overlapping_eval <<<"$want")
    options=()
    [ "$overlap" = null ] || options=(--overlapping-eval "$overlap")
    evaluate --load model/model.safetensors "${tiny[@]}" --task WIKITEXT103 --valid-data text \
        "${options[@]}"
    near .loss "$(jq .avg_loss <<<"$want")" 1e-6 "WIKITEXT103, $overlap tokens apart: loss"
    near .ppl "$(jq .ppl <<<"$want")" 1e-6 "perplexity"
    near .ppl_adjusted "$(jq .adjusted_ppl <<<"$want")" 1e-5 "adjusted perplexity"
    sum=$(jq '.window_loss_sums | add' <<<"$want")
    near .ppl_paper "$(jq -n "$sum / $words | exp")" 1e-5 "the paper's perplexity"
    near .bits_per_byte "$(jq -n "$sum / (2 | log) / $bytes")" 1e-6 "bits of a byte"
    is "$(jq -c '[.task, .tokens, keys_unsorted]' figures)" "$(jq -c '["WIKITEXT103",
        .end_to_end.num_tokenized_tokens, ["task", "tokens", "loss", "ppl", "ppl_adjusted",
        "ppl_paper", "bits_per_byte"]]' "$golden")" "its fields"
done
ok "grep -q 'sequences of 32 positions, 1 a pass, 1 a batch' <<<\"\$err\"" "what is planned" \
    || diag "$err"

jq -c '.end_to_end.lambada_f64.samples[] | {tokens, labels}' "$golden" >lambada
evaluate --load "$weights" "${tiny[@]}" --task LAMBADA --valid-data lambada
near .accuracy "$(jq .end_to_end.lambada_f64.accuracy "$golden")" 1e-12 "LAMBADA: accuracy"
is "$(jq -c keys_unsorted figures)" '["task","tokens","loss","accuracy"]' "its fields"
evaluate --load "$weights" "${tiny[@]}" --task LAMBADA --valid-data lambada --micro-batch-size 5
near .accuracy "$(jq .end_to_end.lambada_f64.accuracy "$golden")" 1e-12 "five texts a pass"

# ---- every text alone, against the scores of megatron generate

for name in gpt2 llama qwen3_moe mixtral deepseek_v3 mistral_window; do
    jq -cn '[range(3; 90; 4)] | {tokens: .[:5], labels: .[5:]}' >line
    evaluate --load "$hf/$name" --task LAMBADA --valid-data line --seq-length 32
    run megatron generate --load "$hf/$name" --prompt-tokens "$(jq -r '.tokens + .labels
        | map(tostring) | join(",")' line)" --num-tokens-to-generate 0 --return-log-probs --json
    near .loss "$(jq '.prompt_log_probs[4:] | -add / length' <<<"$out")" 1e-5 "$name: loss" \
        || diag "$err"
done

# ---- HellaSwag, by endings that are scored one by one

for ((i = 0; i < 6; i++)); do
    jq -cn --argjson i "$i" '{ind: $i, ctx: ("A man \($i) is" + " " * ($i % 2)), label: ($i % 3),
        endings: ["big.", "in a \($i)ar.", "o\u00e9"]}'
done >hellaswag
evaluate --load model/model.safetensors "${tiny[@]}" --task HELLASWAG --valid-data hellaswag
mv figures hellaswag.figures
jq -c '. as $q | .endings[] | {text: ($q.ctx + " " + .)}' hellaswag >prompts
run megatron generate --load model/model.safetensors "${tiny[@]}" --prompt-file prompts \
    --num-tokens-to-generate 0 --return-log-probs --json
jq -c .prompt_log_probs <<<"$out" >scores
want=$(jq -s --slurpfile s scores -c '. as $q
    | [range(length) as $i | $q[$i] | (.ctx | rtrimstr(" ") | utf8bytelength) as $context
       | [range(3) as $e | {e: $e, sum: ($s[$i * 3 + $e][$context - 1:] | add),
                            length: (.endings[$e] | length)}] as $endings
       | [(($endings | max_by(.sum) | .e) == .label),
          (($endings | max_by(.sum / .length) | .e) == .label)]]
    | [(map(select(.[0])) | length) / length, (map(select(.[1])) | length) / length]' hellaswag)
is "$(jq -c '[.accuracy, .accuracy_norm]' hellaswag.figures)" "$want" "HELLASWAG: accuracies"
is "$(jq -c keys_unsorted hellaswag.figures)" '["task","tokens","accuracy","accuracy_norm"]' \
    "its fields"

# ---- a checkpoint; of equal logits the lowest id is the largest; what begins a text

run megatron train --num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 16 \
    --vocab-size 300 --mock-data --micro-batch-size 2 --train-iters 1 --lr 1e-9 --init-method-std 0 \
    --eval-iters 0 --save ck
is "$status" 0 "a checkpoint whose logits are all equal" || diag "$err"
echo '{"tokens":[1,2],"labels":[0]}' >ties
echo '{"tokens":[1,2],"labels":[9]}' >>ties
evaluate --load ck --task LAMBADA --valid-data ties
is "$(jq -c .accuracy figures)" 0.5 "the lowest id among equals" || diag "$err"
near .loss "$(jq -n '300 | log')" 1e-6 "its loss"
run megatron train --num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 16 \
    --vocab-size 300 --mock-data --micro-batch-size 2 --train-iters 1 --lr 1e-9 --init-method-std 0 \
    --eval-iters 0 --save mtp --mtp-num-layers 1 --position-embedding-type rope
evaluate --load mtp --task LAMBADA --valid-data ties
near .loss "$(jq -n '300 | log')" 1e-6 "layers for multi-token prediction are left out"
printf 'a b' >short
evaluate --load ck --tokenizer-type ByteLevel --task perplexity --valid-data short --add-bos
is "$(jq -c '[.task, .tokens, keys_unsorted]' figures)" \
    '["PERPLEXITY",4,["task","tokens","loss","ppl","bits_per_byte"]]' "--add-bos" || diag "$err"
run megatron eval --load ck --tokenizer-type ByteLevel --task PTB --valid-data short
ok "grep -q '^PTB: 3 tokens, loss 5.7037825, ppl 300' <<<\"\$out\"" "figures as words" \
    || diag "$out" "$err"

# ---- refusals

refused() {
    local text=$1 want=$2
    shift 2
    run megatron eval "$@"
    ok "[ $status = $want ] && [ -z \"\$out\" ] && [ \"\$(wc -l <<<\"\$err\")\" -le 2 ] \
        && grep -q -- '$text' <<<\"\$err\"" "$text" || diag "$status: $err"
}
bytes=(--load ck --tokenizer-type ByteLevel)
refused "--load is missing" 2 --task LAMBADA --valid-data ties
refused "--task is missing" 2 --load ck --valid-data ties
refused "--valid-data is missing" 2 --load ck --task LAMBADA
refused "--task MNLI, want WIKITEXT103" 2 --load ck --task MNLI --valid-data ties
refused "No such file" 2 --load ck --task LAMBADA --valid-data nothing
refused "No such file" 2 --load nothing --task LAMBADA --valid-data ties
refused "quantised weights is not supported" 2 "${bytes[@]}" --task LAMBADA --valid-data ties \
    --quantization fp8
refused "there is no tokenizer" 2 --load ck --task PERPLEXITY --valid-data short
refused "--overlapping-eval 17, want 1 to the sequence length 16" 2 "${bytes[@]}" \
    --task PERPLEXITY --valid-data short --overlapping-eval 17
refused "overlapping-eval" 2 "${bytes[@]}" --task PERPLEXITY --valid-data short \
    --overlapping-eval 0
refused "--strict-lambada wants --task LAMBADA" 2 "${bytes[@]}" --task PERPLEXITY \
    --valid-data short --strict-lambada
refused "seq-length" 2 --load "$weights" "${tiny[@]}" --task LAMBADA --valid-data ties \
    --seq-length 33
refused "ties: line 1: want an object with \"ctx\"" 2 "${bytes[@]}" --task HELLASWAG \
    --valid-data ties
refused "\"text\", a string\|no tokenizer" 2 --load ck --task LAMBADA --valid-data prompts
refused "multiple" 2 --load ck --task LAMBADA --valid-data ties --micro-batch-size 2 \
    --global-batch-size 3

done_testing
