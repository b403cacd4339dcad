#!/bin/bash
# Every command, with its n-th allocation or file operation failing.  Whatever fails, the
# command ends by itself; it either has done all that it should, or has a status above 0 and a
# line that says what failed; what was whole before is whole; and the same command again, with
# nothing failing, does what it should.
# MG_NTH_STRIDE=S takes every S-th call (160; with MG_LONG=1 40), MG_SEED=N other first ones,
# MG_NTH_ALL=1 all of them; MG_NTH_ONLY="NAME ..." some cases.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/train.sh"

! ldd "$MG_BUILDDIR/megatron" | grep -q 'lib[at]san' || skip_all "the sanitizers come first"
lib=$MG_BUILDDIR/tests/lib/.libs/nth-fault.so
stride=${MG_NTH_STRIDE:-$(long && echo 40 || echo 160)}
[ -z "${MG_NTH_ALL:-}" ] || stride=1
seed_draws
# a file system that never fills up, and syncs at once
[ ! -w /dev/shm ] || { base=$(mktemp -d /dev/shm/megatron-nth.XXXXXX) && at_exit "rm -rf '$base'"; }
: "${base:=$TEST_DIR}"
undo_later "rm -rf '$base'"
cd "$base" || bail_out "no $base"

model=(--num-layers 2 --hidden-size 16 --num-attention-heads 2 --seq-length 8
       --tokenizer-type ByteLevel --micro-batch-size 1 --lr 1e-3 --lr-decay-style constant)
train=(megatron train "${model[@]}" --data-path text_text_document --split 80,20,0
       --global-batch-size 4 --eval-interval 2 --eval-iters 1 --save-interval 2
       --save s --save-weights w.st --metrics-file m.json)
mkdir start
(cd start && make_text text.txt 3 && sed -i 's/$/\n/' text.txt \
    && megatron data tokenize --input text.txt --output-prefix text --append-eod \
    && "${train[@]}" --train-iters 2 && rm w.st m.json) >.setup 2>&1 \
    || bail_out "no start: $(cat .setup)"

# What a command has made, without what differs from run to run: times, and the identity of a
# save.
content() {
    local file
    (cd work && find . -type f ! -path './s/*' ! -path './made/*' ! -name '.std*' \
            ! -name '*.npy' ! -name '*description.txt' | sort | while read -r file; do
        case $file in
            ./m.json) ;; # a run that goes on has fewer lines
            *) echo "$file $(cksum <"$file")" ;;
        esac
    done
    ls s made cache 2>/dev/null
    cat s/latest* made/latest* 2>/dev/null) || :
}

# printed: standard output, where it is the same from run to run
printed() {
    case $name in
        eval* | serve | plan* | inspect | index | encode | decode | tokenize) cat work/.stdout ;;
        checkpoint-inspect | verify) sed 's/"save".*//; s/[0-9a-f]\{16\}//' work/.stdout ;;
    esac
}

# whole: does everything there that a reader would take for whole pass its check?
whole() {
    (
        cd work || exit 1
        for dir in s made; do
            [ -e $dir/latest_checkpointed_iteration.txt ] || continue
            megatron checkpoint verify $dir --all || exit 1
            megatron checkpoint verify $dir || exit 1
        done
        [ ! -e text_text_document.idx ] || megatron data inspect text_text_document || exit 1
        [ ! -e new_text_document.idx ] || megatron data inspect new_text_document
    ) >.whole 2>&1
}

# go CLASS N: the command of the case with that call failing; leaves $status
go() {
    status=0
    rm -f log
    (cd work && timeout 60 env MG_NTH_CLASS="$1" MG_NTH="$2" MG_NTH_LOG="$base/log" \
        LD_PRELOAD="$lib" "${command[@]}" >.stdout 2>.stderr <"$input") || status=$?
}

fresh() {
    rm -rf work
    cp -a start work
}

# bad TEXT: one fault that was not taken well
bad() {
    wrong=$((wrong + 1))
    [ $wrong -gt 12 ] || diag "$name, $1 $2: $3 ($(cat log 2>/dev/null)): $(head -c 600 work/.stderr)"
}

# said CLASS: does the last line say what failed?
said() {
    local text
    case $1 in
        memory) text='memory|cannot start|no thread|Resource temporarily' ;;
        *) text='Input/output error|No space left|Too many open|Permission denied|quota'
           text+='|Cannot allocate|Device or resource busy|Is a directory|memory|Interrupted' ;;
    esac
    grep -aqE "^megatron.*($text)" work/.stderr \
        || { [ "$name" = verify ] && grep -aqE "$text" work/.stdout; }
}

# one CLASS N: one fault
one() {
    fresh
    go "$1" "$2"
    if [ $status -ge 124 ]; then
        bad "$1" "$2" "status $status"
    elif [ $status = 0 ] && [ "$name" != doctor ]; then
        [ "$(content)$(printed)" = "$want" ] || bad "$1" "$2" "status 0, but another result"
    elif [ $status != 0 ] && [ "$name" != doctor ]; then
        said "$1" || bad "$1" "$2" "status $status, not said why"
    fi
    # what may only be tried again has no right to fail
    case $1 in short | signal) [ $status = "$usual" ] || bad "$1" "$2" "status $status" ;; esac
    whole || bad "$1" "$2" "$(tail -n 2 .whole)"
    # a checkpoint is converted once, and never over another model
    [ $status != 0 ] || [ "$name" != convert-checkpoint ] || return 0
    [ ! -e work/c.hf/config.json ] || return 0
    go none 0
    [ $status = $usual ] || bad "$1" "$2" "afterwards status $status"
    [ "$(content)$(printed)" = "$want" ] || bad "$1" "$2" "afterwards another result"
    [ -z "$(find work -name '*tmp*' -o -name '*.old-*')" ] \
        || bad "$1" "$2" "leftovers: $(find work -name '*tmp*' -o -name '*.old-*')"
}

# faults NAME COMMAND...
faults() {
    local class n first total=0
    name=$1
    shift
    command=("$@")
    wrong=0
    [ -z "${MG_NTH_ONLY:-}" ] || [[ " $MG_NTH_ONLY " == *" $name "* ]] || return 0
    fresh
    go none 0
    usual=$status
    [ $status = 0 ] || [ $name = doctor ] \
        || { is "$status" 0 "$name: without a fault"; diag "$(cat work/.stderr)"; return 0; }
    want=$(content)$(printed)
    for class in memory file short signal; do
        fresh
        go $class 0
        calls=$(sed -n 's/^calls //p' log | sort -n | tail -n 1)
        # a thread's own calls may be a few more another time
        first=$((1 + RANDOM % (stride < calls ? stride : calls > 0 ? calls : 1)))
        for ((n = first; n <= calls; n += stride)); do
            one $class $n
            total=$((total + 1))
        done
    done
    all=$((all + total))
    is "$wrong" 0 "$name: $total faults, all taken well"
}

all=0
input=/dev/null
faults tokenize megatron data tokenize --input text.txt --output-prefix new --append-eod
faults retokenize megatron data tokenize --input text.txt --output-prefix text --append-eod
faults merge megatron data merge text_text_document text_text_document --output new_text_document
faults split megatron data split text_text_document --output new --documents 5
faults inspect megatron data inspect text_text_document --json
faults index megatron data index text_text_document --seq-length 8 --num-samples 30 \
    --data-cache-path cache --json
input=$base/start/text.txt
faults encode megatron data encode --tokenizer-type ByteLevel
hf=(megatron data encode --tokenizer-type HuggingFaceTokenizer --tokenizer-model)
for style in qwen llama2; do
    faults "encode-$style" "${hf[@]}" \
        "$MG_SRCDIR/tests/golden/tokenizers/$style.json"
done
input=/dev/null
faults train-tokenizer megatron data train-tokenizer text.txt --vocab-size 280 --output own
faults train "${train[@]}" --train-iters 4 --load s --log-interval 2
faults train-begin megatron train "${model[@]}" --data-path text_text_document --split 80,20,0 \
    --global-batch-size 4 --train-iters 1 --eval-iters 0 --save made --save-weights w.st \
    --data-cache-path cache
faults train-async "${train[@]}" --train-iters 4 --load s --async-save
faults train-graphs "${train[@]}" --train-iters 5 --load s --cuda-graph-impl local \
    --cuda-graph-warmup-steps 1
faults train-graph "${train[@]}" --train-iters 4 --load s --cuda-graph-impl full_iteration \
    --cuda-graph-warmup-steps 1
faults checkpoint-inspect megatron checkpoint inspect s --json
faults verify megatron checkpoint verify s --all
faults convert megatron checkpoint convert s --output c.st
faults convert-hf megatron checkpoint convert s --output c.hf --format hf --max-shard-size 9KB
faults convert-checkpoint megatron checkpoint convert s --output made --format checkpoint
eval=(megatron eval --load s --tokenizer-type ByteLevel --json)
faults eval-text "${eval[@]}" --task WIKITEXT103 --valid-data text.txt --overlapping-eval 3
echo '{"ctx": "ab", "endings": ["c", "de"], "label": 1}' >start/endings
faults eval-lines "${eval[@]}" --task HELLASWAG --valid-data endings
megatron serve --load . --no-api-key 2>&1 | grep -q "this build lacks" \
    || faults serve "$MG_SRCDIR/tests/lib/serve-once" --load s --tokenizer-type ByteLevel
cat >start/params.json <<'END'
[{"name": "a", "shape": [30, 5], "dtype": "fp32"}, {"name": "b", "shape": [7], "dtype": "fp32"}]
END
faults plan-buffers megatron plan buffers --params params.json --dp 2 --svg b.svg
faults plan-check megatron plan check --tp 2 --pp 2 --world-size 8
faults plan-groups megatron plan groups --tp 2 --pp 2 --ep 2 --world-size 8 \
    --ntasks-per-node 3 --svg g.svg
faults plan-layers megatron plan layers --num-layers 8 --pp 2
faults plan-loss-scale megatron plan loss-scale --found-inf 1,0*3
faults plan-lr megatron plan lr --steps 1,3 --lr 1e-3 --train-iters 5
faults plan-memory megatron plan memory "${model[@]}" --global-batch-size 4 --train-iters 5
faults plan-moe megatron plan moe "${model[@]}" --num-experts 4 --disable-bias-linear \
    --expert-model-parallel-size 2 --world-size 4 --ranks-per-node 2
faults plan-schedule megatron plan schedule --pp 2 --num-microbatches 4 --svg s.svg
faults doctor megatron doctor
ok "[ $all -gt 0 ]" "$all faults in all"
done_testing
