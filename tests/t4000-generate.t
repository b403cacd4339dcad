#!/bin/bash
# megatron generate: tokens and log probabilities of the reference data, requests that share passes
# against one by one, the cache against passes over all tokens, texts, refusals.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"

golden=$MG_SHARED/golden/15_generate.json
hf=$MG_SHARED/golden/14_hf
[ -r "$golden" ] || skip_all "no reference data in $MG_SHARED"

# prompts FILTER: --prompt-tokens of each list of ids that a jq filter gives, into ${prompts[@]}
prompts() {
    local line
    prompts=()
    while read -r line; do
        prompts+=(--prompt-tokens "$line")
    done < <(jq -r "$1 | map(tostring) | join(\",\")" "${2:-$golden}")
}

# ---- reference data

for i in 0 1; do
    model=$(jq -r ".models[$i].model" "$golden")
    prompts ".models[$i].greedy[].prompt"
    run megatron generate --load "$MG_SHARED/golden/$model" "${prompts[@]}" --temperature 0 \
        --num-tokens-to-generate 20 --ignore-eos --return-log-probs --json
    echo "$out" >got
    is "$status" 0 "$model: generates" || diag "$err"
    is "$(jq -c .tokens got)" "$(jq -c ".models[$i].greedy[].greedy" "$golden")" "$model: tokens"
    ok "jq -es --slurpfile g '$golden' '. as \$got | \$g[0].models[$i].greedy | length > 0 and
        all(range(length) as \$p | [\$got[\$p].log_probs, .[\$p].generated_logprobs_f64],
            [\$got[\$p].prompt_log_probs, .[\$p].prompt_logprobs_f64];
            (.[0] | length) == (.[1] | length)
            and all(range(.[0] | length) as \$k | .[0][\$k] - .[1][\$k]; fabs < 1e-5))' got" \
        "$model: log probabilities"
    ok "grep -q '80 tokens in .*; 0 near ties' <<<\"\$err\"" "$model: counts" || diag "$err"
    eod=$(jq ".models[$i].eod" "$golden")
    run megatron generate --load "$MG_SHARED/golden/$model" "${prompts[@]}" --temperature 0 \
        --num-tokens-to-generate 20 --termination-id "$eod" --json
    is "$(jq -c '[.tokens, .finish_reason]' <<<"$out")" \
        "$(jq -c ".models[$i].stop_at_eod[] | [.generated_without_eod,
            if .stopped then \"stop\" else \"length\" end]" "$golden")" "$model: stops"
done

# ---- draws follow the probabilities of the reference data

if command -v python3 >/dev/null; then
    cat >chi.py <<'END'
import struct, sys, zipfile
data = zipfile.ZipFile(sys.argv[1]).read(sys.argv[2] + '.npy')
head = struct.unpack('<H', data[8:10])[0]
kind = data[10:10 + head].split(b"'descr': '")[1][:3].decode()
width, code = {'<f4': (4, 'f'), '<f8': (8, 'd')}[kind]
want = struct.unpack('<%d%s' % ((len(data) - 10 - head) // width, code), data[10 + head:])
got = [0] * len(want)
for line in open('drawn'):
    got[int(line)] += 1
n, cells, rest = sum(got), [], [0, 0]
for w, g in zip(want, got):
    if w * n < 5:
        rest = [rest[0] + w * n, rest[1] + g]
    else:
        cells.append((w * n, g))
cells += [tuple(rest)] if rest[0] > 0 else []
k = len(cells) - 1
chi = sum((g - w) ** 2 / w for w, g in cells)
# Wilson and Hilferty 1931: the quantile of 1 - 1e-3
limit = k * (1 - 2 / (9 * k) + 3.0902 * (2 / (9 * k)) ** 0.5) ** 3
never = sum(g for w, g in zip(want, got) if w == 0)
print(n, 'good' if chi < limit and never == 0 and k > 2 else 'bad',
      'chi-square %.1f of %d, limit %.1f, %d that are left out' % (chi, k, limit, never))
END
    for p in 1 3 5; do # at steps 1, 3 and 1
        sampling=(--temperature "$(jq ".params[$p].temperature" "$golden")"
                  --top-k "$(jq ".params[$p].top_k" "$golden")"
                  --top-p "$(jq ".params[$p].top_p" "$golden")")
        step=".models[0].prob_steps[$((p % 4))].context"
        jq -c "{tokens: $step} | range(6000) as \$i | ." "$golden" >prompts
        run megatron generate --load "$hf/gpt2" --prompt-file prompts --seed 11 "${sampling[@]}" \
            --num-tokens-to-generate 1 --ignore-eos --json --inference-max-requests 50
        jq -c .tokens[0] <<<"$out" >drawn
        run python3 chi.py "${golden%.json}.npz" "gpt2.step$((p % 4)).p$p"
        like "$out" "^6000 good" "draws of parameters $p: $out" || diag "$err"
    done
else
    skip 3 "no python3"
fi

# ---- models with room for 256 positions, windows in all layers and in some of them

for name in llama deepseek_v3 mixtral mistral_window; do
    mkdir "$name"
    cp "$hf/$name"/* "$name"
    chmod u+w "$name"/*
    sed -i 's/"max_position_embeddings": 64/"max_position_embeddings": 256/' "$name/config.json"
done
tiny=(--num-layers 3 --hidden-size 32 --num-attention-heads 4 --position-embedding-type rope
      --seq-length 256 --max-position-embeddings 256 --vocab-size 96 --disable-bias-linear
      --normalization RMSNorm --init-method-std 0.3 --mock-data --micro-batch-size 1 --train-iters 1
      --lr 1e-9 --eval-iters 0)
megatron train "${tiny[@]}" --group-query-attention --num-query-groups 2 --softmax-type learnable \
    --window-size 8,0 --window-attn-skip-freq 2 --save-weights some_windows >train.txt 2>&1 \
    || diag "$(cat train.txt)"
megatron train "${tiny[@]}" --multi-latent-attention --q-lora-rank 12 --kv-lora-rank 16 \
    --qk-head-dim 8 --qk-pos-emb-head-dim 4 --v-head-dim 8 --qk-layernorm --window-size 8,0 \
    --window-attn-skip-freq "[1,0,1]" --save-weights latent_windows >train.txt 2>&1 \
    || diag "$(cat train.txt)"

# ---- 32 prompts of 1 to 200 tokens: 4 places and pieces of 7 rows, one by one, and without a cache

for ((i = 1; i <= 32; i++)); do
    seq "$i" $((i + 7 * i % 32 * 199 / 31)) | awk '{ print 5 * $1 % 96 }' | paste -sd,
done | sed 's/.*/{"tokens": [&]}/' >prompts
is "$(jq -s 'map(.tokens | length) | [min, max]' -c prompts)" "[1,200]" "prompts"
for name in llama deepseek_v3 mixtral mistral_window some_windows latent_windows; do
    args=(--load "$name" --num-tokens-to-generate 6 --ignore-eos --seed 3 --top-k 40
          --top-p 0.95 --temperature 0.9 --json)
    run megatron generate "${args[@]}" --prompt-file prompts --inference-max-requests 4 \
        --inference-dynamic-batching-max-tokens 7
    echo "$out" >together
    is "$status:$(jq -s length together)" 0:32 "$name: four at a time" || diag "$err"
    run megatron generate "${args[@]}" --prompt-file prompts --inference-max-requests 1
    is "$out" "$(cat together)" "$name: one by one"
    # each token by a pass over all that are before it
    jq -c '{tokens: (.prompt_tokens + .tokens)}' together >whole
    run megatron generate --load "$name" --prompt-file whole --num-tokens-to-generate 0 \
        --return-log-probs --json
    jq -c .prompt_log_probs <<<"$out" >full
    run megatron generate "${args[@]}" --prompt-file prompts --return-log-probs \
        --inference-max-requests 3 --inference-dynamic-batching-max-tokens 5
    jq -c '.prompt_log_probs + .log_probs' <<<"$out" >cached
    ok "jq -es --slurpfile full full '. as \$c | length == 32 and
        all(range(32) as \$i | range(\$c[\$i] | length) as \$k | \$c[\$i][\$k] - \$full[\$i][\$k];
            fabs < 1e-5)' cached" "$name: the cache against whole passes"
done

# ---- texts, whose tokens are numbers

run megatron generate --load "$hf/gpt2" --tokenizer-type NullTokenizer --vocab-size 96 \
    --prompts "22 78 68" "1 2" --temperature 0 --num-tokens-to-generate 3 --ignore-eos --json
is "$(jq -c '[.prompt, .prompt_tokens, .tokens]' <<<"$out" | head -n 1)" \
    '["22 78 68",[22,78,68],[85,30,30]]' "texts" || diag "$err"
printf '%s\n' '22 78 68' '' 'x y' '22 78 68' >lines
run bash -c "megatron generate --load '$hf/gpt2' --tokenizer-type NullTokenizer --vocab-size 96 \
    --interactive --temperature 0 --num-tokens-to-generate 3 --ignore-eos <lines"
is "$status:$(wc -l <<<"$out"):$(sort <<<"$out" | uniq -d | wc -l)" 0:3:1 "lines of standard input" \
    || diag "$err"

# ---- a checkpoint and weights of a training, stop strings

for ((i = 0; i < 400; i++)); do echo "$i and $((i + 1)) are numbers"; done >text
run megatron data tokenize --input text --output-prefix text --append-eod
run megatron train --num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 32 \
    --tokenizer-type ByteLevel --data-path text_text_document --micro-batch-size 8 \
    --train-iters 40 --lr 5e-3 --lr-decay-style constant --split 100,0,0 --eval-iters 0 --save ck \
    --save-weights w.st
is "$status" 0 "a model is trained" || diag "$err"
args=(--tokenizer-type ByteLevel --prompts "7 and" $'\xc3' "" --num-tokens-to-generate 12 --json)
run megatron generate --load ck "${args[@]}" --seed 8
checkpoint=$out
is "$status:$(jq -c .prompt_tokens <<<"$out" | xargs)" \
    '0:[55,32,97,110,100] [195] [256]' "prompts, also an empty one" || diag "$err"
is "$(jq -r '.prompt' <<<"$out" | sed -n 2p)" $'\xef\xbf\xbd' "what is not UTF-8 is U+FFFD"
run megatron generate --load w.st "${args[@]}" --seed 8
is "$out" "$checkpoint" "a file of weights"
text=$(jq -r .text <<<"$checkpoint" | head -n 1)
run megatron generate --load ck "${args[@]}" --seed 8 --stop "${text:3:2}" --stop nothing
is "$(jq -c '[.text, .finish_reason]' <<<"$out" | head -n 1)" \
    "$(jq -cn --arg text "${text%%"${text:3:2}"*}" '[$text, "stop"]')" "a stop string"
run megatron generate --load ck "${args[@]}" --seed 9
ok "[ \"\$out\" != \"\$checkpoint\" ]" "another seed"

# ---- a trained model of others, which sorts six digits

weights=$MG_SHARED/data/weights/gpt-nano-sort-model.json
if [ -r "$weights" ] && command -v python3 >/dev/null; then
    python3 - "$weights" <<'END'
import base64, json, struct, sys
head, data = {}, b''
for name, t in json.load(open(sys.argv[1])).items():
    if isinstance(t, dict) and 'data' in t and not name.endswith('.attn.bias'):
        raw = base64.b64decode(t['data'])
        head[name] = {'dtype': 'F32', 'shape': t['shape'], 'data_offsets': [len(data), len(data) + len(raw)]}
        data += raw
text = json.dumps(head).encode()
open('nano.hf', 'wb').write(struct.pack('<Q', len(text)) + text + data)
END
    run megatron checkpoint convert nano.hf --output nano.st --num-attention-heads 3
    for digits in {0..2},{0..2},{0..2},{0..2},{0..2},{0..2}; do
        echo "{\"tokens\": [$digits]}"
    done >digits
    run megatron generate --load nano.st --num-layers 3 --hidden-size 48 --num-attention-heads 3 \
        --max-position-embeddings 11 --vocab-size 3 --untie-embeddings-and-output-weights \
        --prompt-file digits --temperature 0 --num-tokens-to-generate 6 --ignore-eos --json
    is "$status:$(jq -c 'select(.tokens == (.prompt_tokens | sort)) | .index' <<<"$out" | wc -l)" \
        0:729 "all 729 inputs are sorted" || diag "$err"
else
    skip 1 "no weights in $MG_SHARED, or no python3"
fi

# ---- refusals

refused() {
    local text=$1 want=$2
    shift 2
    run megatron generate "$@"
    ok "[ $status = $want ] && [ \"\$(wc -l <<<\"\$err\")\" -le 2 ] \
        && grep -q -- '$text' <<<\"\$err\"" "$text" || diag "$status: $err"
}
refused "--load is missing\|--load" 2 --prompt-tokens 1
refused "no prompt" 2 --load "$hf/gpt2"
refused "beam search is not supported" 2 --load "$hf/gpt2" --prompt-tokens 1 --beam-width 4
refused "speculative decoding" 2 --load "$hf/gpt2" --prompt-tokens 1 --num-speculative-tokens=2
refused "prefix caching" 2 --load "$hf/gpt2" --prompt-tokens 1 --enable-prefix-caching
refused "token 1 of the prompt is 96, want 0 to 95" 2 --load "$hf/gpt2" --prompt-tokens 1,96
refused "1 tokens and 33 to generate are more than 33" 2 --load "$hf/gpt2" --prompt-tokens 1 \
    --num-tokens-to-generate 33
refused "there is no tokenizer" 2 --load "$hf/gpt2" --prompts hello
refused "top-k 97, want 0 to 96" 2 --load "$hf/gpt2" --prompt-tokens 1 --top-k 97
refused "No such file" 2 --load "$TEST_DIR/nothing" --prompt-tokens 1
refused "wants --return-log-probs" 2 --load "$hf/gpt2" --prompt-tokens 1 --num-tokens-to-generate 0
refused "at least one for each" 2 --load "$hf/gpt2" --prompt-tokens 1 \
    --inference-dynamic-batching-max-tokens 2
echo '{"text": 1}' >bad
refused "bad: line 1: want an object" 2 --load "$hf/gpt2" --prompt-file bad
refused "--prompt-file.*No such file" 2 --load "$hf/gpt2" --prompt-file nothing

# a model of P positions takes P + 1 tokens
run megatron generate --load "$hf/gpt2" --prompt-tokens 1 --num-tokens-to-generate 32 --ignore-eos \
    --json
is "$status:$(jq '.tokens | length' <<<"$out")" 0:32 "prompt and generated tokens fill all positions"

done_testing
