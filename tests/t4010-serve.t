#!/bin/bash
# megatron serve: forms and fields, streams, log probabilities as lm-evaluation-harness reads them,
# refusals, clients that leave, many clients with hostile ones among them, the end, several ranks.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/ranks.sh"

command -v python3 >/dev/null || skip_all "no python3"
megatron serve --load . --no-api-key 2>&1 | grep -q "this build lacks" \
    && skip_all "this build has no libmicrohttpd"
export OMP_NUM_THREADS=1

# ---- a model

for ((i = 0; i < 400; i++)); do echo "$i and $((i + 1)) are numbers"; done >text
megatron data tokenize --input text --output-prefix text --append-eod 2>/dev/null
run megatron train --num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 64 \
    --position-embedding-type rope --max-position-embeddings 20000 --tokenizer-type ByteLevel \
    --data-path text_text_document --micro-batch-size 8 --train-iters 40 --lr 5e-3 \
    --lr-decay-style constant --split 100,0,0 --eval-iters 0 --save ck
is "$status" 0 "a model is trained" || diag "$err"
prompts=(--prompts "7 and" "and 3" "numb")
base=(--load ck --tokenizer-type ByteLevel --json)
megatron generate "${base[@]}" "${prompts[@]}" --temperature 0 --num-tokens-to-generate 12 \
    >greedy 2>/dev/null
megatron generate "${base[@]}" "${prompts[@]}" --seed 8 --top-k 20 --top-p 0.9 --temperature 1.5 \
    --num-tokens-to-generate 20 --ignore-eos >drawn 2>/dev/null
megatron generate "${base[@]}" --prompts "12 and 13 are numbers" "x" "and 3 are" \
    --num-tokens-to-generate 0 --return-log-probs >scores 2>/dev/null
is "$(cat greedy drawn scores | wc -l)" 9 "texts to compare with"
cat >ck/tokenizer_config.json <<'END2'
{"eos_token": "<end>", "chat_template": "{% for m in messages %}{% if m.role == 'bad' %}{{ raise_exception('no such role') }}{% endif %}{{ m.content }}{{ '' if loop.last else ' ' }}{% endfor %}{{ ' and' if add_generation_prompt }}{{ tail }}"}
END2

# ---- servers

serve=(--load ck --tokenizer-type ByteLevel --served-model-name tiny --port 0
       --inference-max-seq-length 20000)

# start_server COMMAND...: leaves $server, its process, and $url
start_server() {
    rm -f served
    "$@" >served 2>errors &
    server=$!
    at_exit "kill $server 2>/dev/null"
    wait_until "grep -qs ' is served at ' served" "$server" || diag "$(cat errors)"
    url=$(sed -n 's/.* is served at //p' served)
}

# end_server TEXT: the server has been told to end, and does
end_server() {
    status=0
    wait "$server" || status=$?
    is "$status" 0 "$1" || diag "$(cat errors)"
}

# client PART KEY [WORD...]: each check of a part
client() {
    local line found=0
    while read -r line; do
        found=1
        test_result "$([ "${line%% *}" = PASS ]; echo $?)" "$1: ${line#* }"
    done < <(python3 "$MG_SRCDIR/tests/lib/serve-client.py" "$1" "$url" "${@:2}" 2>&1)
    ok "[ $found = 1 ]" "$1: there were checks"
}

printf 'first-key\n\nsecond-key\r\n' >keys
start_server megatron serve "${serve[@]}" --api-key-file keys --inference-max-requests 4 \
    --max-body-bytes 4096 --max-prompt-tokens 300 --max-queue 200 --max-connections 100
like "$(cat served)" "^tiny is served at http://127\.0\.0\.1:[0-9]+$" "one line with the address"
client forms first-key
client streams first-key
client chats first-key
client refusals first-key
client harness first-key
run megatron serve "${serve[@]}" --no-api-key --port "${url##*:}"
like "$status:$(grep -c '^megatron serve: ' <<<"$err"):$err" \
    "^[12]:1:.*cannot listen at 127.0.0.1, port ${url##*:}: Address already in use" \
    "a port that is taken"
requests=128
! long || requests=1000
client loads first-key "$server" "$requests"
client drain first-key "$server" 400 whole
end_server "SIGTERM: the running requests end, then the server"

start_server megatron serve "${serve[@]}" --no-api-key --inference-max-requests 4 \
    --client-seconds 1 --request-seconds 2 --drain-seconds 0 --max-connections 20
client leaving -
client drain - "$server" 19000 cut
end_server "a request that does not end in time ends with an error"

start_server env --default-signal=INT megatron serve "${serve[@]}" --no-api-key \
    --no-prompt-logprobs --max-logprobs 0 --host localhost
client less -
kill -INT "$server"
end_server "SIGINT"

# ---- special tokens: "n" is one, and <s> is put before a text

mkdir marked
python3 - >marked/tokenizer.json <<'END'
import json
own = [b for b in range(256) if 33 <= b <= 126 or 161 <= b <= 172 or 174 <= b]
other = [b for b in range(256) if b not in own]
vocab = {chr(b) if b in own else chr(256 + other.index(b)): b for b in range(256)}
level = {'type': 'ByteLevel', 'add_prefix_space': False, 'trim_offsets': True}
print(json.dumps({
    'added_tokens': [{'id': i, 'content': c, 'special': True} for i, c in ((110, 'n'), (256, '<s>'))],
    'pre_tokenizer': level, 'decoder': level,
    'post_processor': {'type': 'TemplateProcessing', 'special_tokens': {'<s>': {'id': '<s>', 'ids': [256]}},
                       'single': [{'SpecialToken': {'id': '<s>'}}, {'Sequence': {'id': 'A'}}]},
    'model': {'type': 'BPE', 'vocab': vocab, 'merges': []}}))
END
echo '{"eos_token": "<s>"}' >marked/tokenizer_config.json
marked=(--tokenizer-type HuggingFaceTokenizer --tokenizer-model marked)
run megatron data encode "${marked[@]}" <<<n
if [[ $err == *PCRE2* ]]; then
    skip 1 "this build has no PCRE2"
else
    start_server megatron serve --load ck --no-api-key --port 0 --inference-max-seq-length 20000 \
        "${marked[@]}"
    client special -
    kill "$server"
    end_server "a server with special tokens"
fi

# ---- under valgrind, in a long run

if long && command -v valgrind >/dev/null && ! ldd "$MG_BUILDDIR/megatron" | grep -q 'lib[at]san'; then
    start_server "$MG_SRCDIR/tests/lib/valgrind" found "$MG_BUILDDIR/megatron" serve "${serve[@]}" \
        --api-key-file keys --max-body-bytes 4096 --inference-max-requests 4
    client load first-key 64
    client drain first-key "$server" 100 whole
    end_server "a server under valgrind"
    is "$(cat found)" "" "valgrind has nothing to say"
else
    skip 1 "valgrind runs in long runs"
fi

# ---- ranks, whose time limit is shorter than they have nothing to do; each in a directory of its own

# serve_ranks ARGUMENT...
serve_ranks() {
    # shellcheck disable=SC2016 # the rank's shell expands it
    ranks_run 2 sh -c 'cd "rank${OMPI_COMM_WORLD_RANK:-$RANK}" && exec megatron serve "$@"' - \
        "${serve[@]}" "$@"
}

if ranks_available; then
    mkdir rank0 rank1
    ln -s ../ck rank0/ck
    ln -s ../keys rank0/keys
    cp -r ck rank1/ck
    echo '{' >rank1/ck/generation_config.json
    run serve_ranks --api-key-file keys --tensor-model-parallel-size 2
    like "$status:$out:$err" "^[1-9][0-9]*::.*ck/generation_config.json: line " \
        "a rank that cannot begin ends all"
    rm rank1/ck/generation_config.json
    for layout in --tensor-model-parallel-size --pipeline-model-parallel-size; do
        start_server serve_ranks --api-key-file keys $layout 2 \
            --distributed-timeout-minutes 0.1
        [ $layout != --tensor-model-parallel-size ] || sleep 7
        client ranks first-key # which rank 0 alone can read
        launcher=$(pgrep -P "$server" -x 'megatron|mpirun|prterun')
        if ranks_launched; then # which passes the signal on; mpirun would kill the ranks
            kill "$launcher"
        else
            pkill -TERM -P "$launcher"
        fi
        end_server "$layout 2: SIGTERM ends all ranks"
    done
else
    skip 1 "neither UCX nor MPI"
fi

# ---- refusals

# refused TEXT ARGUMENT...
refused() {
    run megatron serve --load ck "${@:2}"
    like "$status:$(wc -l <<<"$err"):$err" "^2:1:megatron serve: .*$1" "$1"
}
refused "want one of --api-key-file FILE and --no-api-key"
refused "--enable-lora: adapters is not supported" --no-api-key --enable-lora
refused "want one of --api-key-file FILE and --no-api-key" --no-api-key --api-key-file keys
printf 'a key\n' >blanks
: >none
for row in "blanks:1: a key has 1 to 256 visible characters" "none: there is no key" \
    "nothing: No such file"; do
    run megatron serve "${serve[@]}" --api-key-file "${row%%:*}"
    like "$status:$(grep -c '^megatron serve: ' <<<"$err"):$err" "^2:1:.*megatron serve: .*$row" "$row"
done
refused "--served-model-name: byte 2 is not UTF-8" --no-api-key --served-model-name $'a\xff'
run megatron serve --load $'\xc3' --no-api-key
is "$status:$err" \
    "2:megatron serve: --load: byte 1 is not UTF-8; see megatron serve --help" "a path"
refused "port" --no-api-key --port 65536
refused "max-connections" --no-api-key --max-connections 0
refused "max-queue" --no-api-key --max-queue 0
refused "max-body-bytes" --no-api-key --max-body-bytes 0
refused "max-prompt-tokens" --no-api-key --max-prompt-tokens 0
refused "max-logprobs" --no-api-key --max-logprobs 65
refused "client-seconds" --no-api-key --client-seconds 0
refused "request-seconds" --no-api-key --request-seconds -1
refused "drain-seconds" --no-api-key --drain-seconds x
run megatron serve --load ck --tokenizer-type ByteLevel --no-api-key --host no.such.host.invalid
like "$status:$err" "^2:.*megatron serve: --host no.such.host.invalid: " "a host that does not exist"
echo '{"eos_token"' >ck/tokenizer_config.json
run megatron serve --load ck --tokenizer-type ByteLevel --no-api-key --port 0
like "$status:$(grep -c '^megatron serve: ' <<<"$err"):$err" \
    "^2:1:.*ck/tokenizer_config.json: line 2: " "a file of the tokenizer that is faulty"
done_testing
