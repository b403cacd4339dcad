#!/bin/bash
# Event files for TensorBoard: the numbers of the metrics file under Megatron-LM's tags, read by
# a reader of the tests and by TensorBoard's own; with several ranks, after a kill, in a run that
# goes on; and what is refused.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/ranks.sh"
. "$MG_SRCDIR/tests/lib/train.sh"

command -v perl >/dev/null || skip_all "perl is not installed"
data=text_text_document
train=(megatron train --num-layers 2 --hidden-size 16 --num-attention-heads 2 --seq-length 16
       --tokenizer-type ByteLevel --micro-batch-size 2 --global-batch-size 8 --lr 1e-2
       --train-data-path $data --eval-iters 2)
run "${train[@]}" --train-iters 0 --tensorboard-dir none
! grep -q "this build lacks" <<<"$err" || skip_all "this build has no protobuf-c"
tokenized_text 20

# read_events DIR: leaves DIR.all, DIR.texts and DIR.numbers, from all files of DIR in their order.
read_events() {
    local said
    said=$("$MG_SRCDIR/tests/lib/read-events" "$1"/events.out.tfevents.* 2>&1 >"$1.all")
    is "$?$said" 0 "$1: every record can be read"
    grep "/text_summary$(printf '\t')" "$1.all" >"$1.texts"
    grep -v "/text_summary$(printf '\t')" "$1.all" >"$1.numbers"
}

# expected METRICS [FLAG...]: TAG, STEP and VALUE of each number that follows from metrics, in
# their order.  FLAGs: world=N, interval=N, ppl, noscale, norate.
expected() {
    local file=$1 flag
    local -a vars=()
    shift
    for flag; do
        case $flag in *=*) vars+=(-v "$flag") ;; *) vars+=(-v "$flag=1") ;; esac
    done
    tr -d '{}"' <"$file" | awk "${vars[@]}" '
        function get(name, i) {
            for (i = 1; i <= NF; i++)
                if (index ($i, name ": ") == 1) return substr ($i, length (name) + 3)
            return ""
        }
        function both(tag, value) {
            printf "%s\t%d\t%s\n", tag, get("iteration"), value
            printf "%s vs samples\t%d\t%s\n", tag, get("consumed samples"), value
        }
        BEGIN { FS = ", " }
        get("evaluation") != "" {
            both("lm loss " get("evaluation"), get("lm loss value"))
            if (ppl) both("lm loss " get("evaluation") " ppl", get("lm loss PPL"))
            next
        }
        interval && get("iteration") % interval { next }
        {
            if (!norate) both("learning-rate", get("learning rate"))
            both("batch-size", get("global batch size"))
            both("lm loss", get("lm loss"))
            if (!noscale) both("loss-scale", get("loss scale"))
            if (world) both("world-size", world)
            if (get("skipped") == "false") both("grad-norm", get("grad norm"))
            if (get("num zeros") != "" && get("skipped") == "false")
                both("num-zeros", get("num zeros"))
        }'
}

# same_numbers FILE WANTED TEXT: in the same order, to the precision of float32.
same_numbers() {
    local said
    said=$(awk -F'\t' 'NR == FNR { line[FNR] = $1 "\t" $2; value[FNR] = $3; n = FNR; next }
        $1 "\t" $2 != line[FNR] { print FILENAME ":" FNR ": " $0 ", want " line[FNR]; exit }
        { d = $3 - value[FNR]; if (d < 0) d = -d; size = value[FNR] < 0 ? -value[FNR] : value[FNR]
          if (d > 7e-8 * size) { print FILENAME ":" FNR ": " $0 ", want " value[FNR]; exit } }
        END { if (FNR != n || n < 2) print FNR " numbers, want " n }' "$2" "$1")
    is "$said" "" "$3: $(wc -l <"$2") numbers"
}

# ---- one rank, all that does not depend on time
run "${train[@]}" --train-iters 5 --valid-data-path $data --test-data-path $data \
    --eval-interval 2 --metrics-file one.json --tensorboard-dir runs/one
is "$status" 0 "a run" || diag "$err"
is "$(ls runs/one | grep -cE "^events\.out\.tfevents\.[0-9]{10}\.$(hostname)\.[0-9]+\.0$")" 1 \
    "its directory is made, and one file in it"
read_events runs/one
expected one.json >one.want
same_numbers runs/one.numbers one.want "those of the metrics"
is "$(grep -cP '^lm loss validation\t(2|4|5)\t' runs/one.numbers)" 3 "validations"
is "$(grep -cP '^lm loss test vs samples\t40\t' runs/one.numbers)" 1 "and a test"
is "$(grep -cP '^(num_layers|lr)/text_summary\t0\t"(2|0\.01)"$' runs/one.texts)" 2 "arguments as texts"
is "$(grep -P '^(train_data_path|save|bf16)/' runs/one.texts | cut -f3 | tr '\n' ' ')" \
    "\"False\" \"$data\" \"None\" " "of every kind"
is "$(wc -l <runs/one.texts)" "$(megatron train --help | grep -c '^  --')" "all of them"
run "${train[@]}" --train-iters 6 --valid-data-path $data --eval-interval 4 \
    --metrics-file some.json --tensorboard-dir some --tensorboard-log-interval 3 \
    --no-log-loss-scale-to-tensorboard --no-log-learnig-rate-to-tensorboard \
    --log-validation-ppl-to-tensorboard --log-world-size-to-tensorboard \
    --log-batch-size-to-tensorboard --tensorboard-queue-size 5 --log-num-zeros-in-grad
is "$status" 0 "every third iteration, other values" || diag "$err"
read_events some
expected some.json interval=3 norate noscale ppl world=1 >some.want
same_numbers some.numbers some.want "as asked for"
run "${train[@]}" --train-iters 6 --fp16 --initial-loss-scale 1e12 --hysteresis 1 --metrics-file skip.json \
    --tensorboard-dir skip --log-num-zeros-in-grad
ok "grep -q '\"skipped\": true' skip.json" "iterations that are skipped"
read_events skip
expected skip.json >skip.want
same_numbers skip.numbers skip.want "have neither a norm nor zeros"
run "${train[@]}" --skip-train --valid-data-path $data --eval-iters 2 --metrics-file eval.json \
    --tensorboard-dir eval
is "$status" 0 "a run that only evaluates" || diag "$err"
read_events eval
expected eval.json >eval.want
same_numbers eval.numbers eval.want "writes that"
run "${train[@]}" --train-iters 1 --log-timers-to-tensorboard
is "$status,$(find . -name 'events.*' -newer eval.want)" "0," "no directory: no file" || diag "$err"

# ---- times and memory; several ranks: the last one writes
launch=()
ranks=1
! ranks_available || { launch=(ranks_run 2) ranks=2; }
run "${launch[@]}" "${train[@]}" --train-iters 7 --log-interval 3 --metrics-file all.json \
    --tensorboard-dir all --log-timers-to-tensorboard --log-throughput --timing-log-level 1 \
    --log-memory-to-tensorboard --log-world-size-to-tensorboard
is "$status" 0 "$ranks ranks" || diag "$err"
is "$(ls all | wc -l)" 1 "write one file"
read_events all
grep -vE '^(mem-|throughput|[a-z-]*-time)' all.numbers >all.rest
expected all.json world=$ranks >all.want
same_numbers all.rest all.want "the same numbers"
# steps TAG
steps() {
    grep -P "^$1\t" all.numbers | cut -f2 | tr '\n' ' '
}
is "$(steps iteration-time),$(steps throughput),$(steps optimizer-time)" "3 6 ,1 3 6 ,1 3 6 " \
    "times with the log lines"
awk -F'\t' 'NR == FNR && FNR > 1 && FNR <= 6 {
        split ($0, a, "elapsed time per iteration \\(ms\\)\": "); split (a[2], b, ",")
        split ($0, a, "TFLOP/s/GPU\\)\": "); sum[FNR <= 3 ? 3 : 6] += b[1]; n++ }
    NR == FNR { if (FNR == 1) { split ($0, a, "elapsed time per iteration \\(ms\\)\": ")
        split (a[2], b, ","); sum[3] += b[1] } next }
    $1 == "iteration-time" { d = $3 * 3000 / sum[$2] - 1
        if (d > 1e-6 || d < -1e-6) bad = bad " " $2; seen++ }
    END { print seen bad }' all.json all.numbers >times
is "$(cat times)" 2 "seconds of an iteration, as a mean"
is "$(grep -oP '^[a-z-]+-time(?=\t6\t)' all.numbers | tr '\n' ' ')" \
    "iteration-time forward-backward-time layernorm-grads-all-reduce-time embedding-grads-all-reduce-time all-grads-sync-time optimizer-clip-main-grad-time optimizer-inner-step-time optimizer-time " \
    "Megatron-LM's timers"
# the longest of all ranks, in milliseconds
is "$(grep -P '^optimizer-time\t' all.numbers | awk -F'\t' '{ printf "%.2f\n", $3 }')" \
    "$(sed -n 's/^    optimizer \.*: ([0-9.]*, \([0-9.]*\))$/\1/p' <<<"$out")" "as the log has them"
is "$(grep -P '^throughput\t' all.numbers | awk -F'\t' '{ printf "%.6f\n", $3 }')" \
    "$(sed -n 's|.* throughput per GPU (TFLOP/s/GPU): \([^ ]*\) .*|\1|p' <<<"$out")" "and the rates"
is "$(steps mem-reserved-bytes)" "1 2 3 4 5 6 7 " "memory with each iteration"
bytes=$(sed -n 's/^ memory plan.* allocated: \([0-9]*\) .*/\1/p' <<<"$out" | tail -n 1)
is "$(grep -P '^mem-(max-)?allocated-bytes\t' all.numbers | cut -f3 | sort -u)" \
    "$(awk -v n="$bytes" 'BEGIN { printf "%.9g", n }')" "of the last rank"
ok "awk -F'\t' '\$1 == \"mem-reserved-bytes\" && \$3 < $bytes { exit 1 }' all.numbers" \
    "more is resident than it has allocated"

# ---- a run that goes on begins another file
run "${train[@]}" --train-iters 8 --exit-interval 5 --save ck --save-interval 3 \
    --metrics-file two.json --tensorboard-dir two
is "$status" 0 "a run that leaves early" || diag "$err"
sha256sum two/* >before
first=$(cut -d. -f4 <<<"$(ls two)")
wait_until "[ \$(date +%s) -gt $first ]"
run "${train[@]}" --train-iters 8 --load ck --ckpt-step 3 --metrics-file two.json --tensorboard-dir two
is "$status" 0 "one that goes on from an earlier iteration" || diag "$err"
is "$(ls two | wc -l)" 2 "begins another file"
ok "sha256sum --quiet -c before" "and leaves the first one as it is"
read_events two
expected two.json >two.want
same_numbers two.numbers two.want "both hold the numbers of the metrics"
is "$(grep -P '^lm loss\t' two.numbers | cut -f2 | tr '\n' ' ')" "1 2 3 4 5 4 5 6 7 8 " "step by step"
is "$(grep -P '^num_layers/' two.texts | cut -f2 | tr '\n' ' ')" "0 3 " "each with its arguments"

# ---- after a kill, all that was logged is there
"${train[@]}" --train-iters 100000 --tensorboard-dir killed >killed.log 2>&1 &
pid=$!
until_iteration 5 killed.log $pid
kill -KILL $pid
wait $pid 2>/dev/null
# the line of the last iteration may have come before its record
wanted=$(($(grep -c '\] iteration ' killed.log) - 1))
"$MG_SRCDIR/tests/lib/read-events" killed/* >killed.all 2>killed.err
ok "[ ! -s killed.err ] || grep -q 'cut short' killed.err" "a killed run: its file can be read" \
    || diag "$(cat killed.err)"
ok "[ $wanted -ge 4 ] && [ $(grep -cP '^lm loss\t' killed.all) -ge $wanted ]" \
    "with all $wanted iterations that were complete"

# ---- TensorBoard itself
cat >accumulate.py <<'END'
import sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
found = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0, "tensors": 0})
found.Reload()
for tag in found.Tags()["scalars"]:
    for event in found.Scalars(tag):
        print("%s\t%d\t%.9g" % (tag, event.step, event.value))
for tag in found.Tags()["tensors"]:
    for event in found.Tensors(tag):
        text = event.tensor_proto.string_val[0].decode()
        print('%s\t%d\t"%s"' % (tag, event.step, text))
END
python=${MG_TEST_PYTHON:-python3}
if "$python" -c 'import tensorboard' 2>/dev/null; then
    for dir in runs/one all two; do
        is "$("$python" accumulate.py $dir 2>accumulate.err | sort)" "$(sort $dir.all)" \
            "TensorBoard reads the same from $dir" || diag "$(cat accumulate.err)"
    done
else
    skip 3 "python has no tensorboard (MG_TEST_PYTHON names another python)"
fi

# ---- what is refused
# refused DIR WANT TEXT LAUNCHER...
refused() {
    local dir=$1 want=$2 text=$3
    shift 3
    run "$@" "${train[@]}" --train-iters 40 --log-interval 40 --tensorboard-dir "$dir"
    is "$status" 1 "$text: refused"
    is "$(grep -ac '^megatron train: ' <<<"$err")" 1 "in one line" || diag "$err"
    like "$(grep '^megatron train: ' <<<"$err")" "^megatron train: $want" "that says why"
}
below="--tensorboard-dir: cannot create directory text.txt: Not a directory\$"
refused text.txt "--tensorboard-dir: .*text.txt" "a file in place of the directory" env
refused text.txt/below "$below" "a directory below a file" env
refused /proc/self/fd "--tensorboard-dir.* /proc/self/fd" "a directory in which no file can be" env
# Room for what a run writes before its first iteration, and for some of its iterations.
run "${train[@]}" --train-iters 1 --tensorboard-dir short
room=$(($(stat -c %s short/events*) / 1024 + 6))
refused full "full/events[^ ]*: cannot write events: File too large; the run ends after iteration [0-9]* of 40, nothing is \
saved without --save\$" "a file that cannot grow" \
    bash -c 'trap "" XFSZ; ulimit -f '"$room"'; exec "$@"' bash
is "$(ls full | wc -l)" 1 "what was written stays"
run "${train[@]}" --train-iters 1 --tensorboard-dir ""
is "$status,$err" "2,megatron train: --tensorboard-dir: the value is empty" "a directory without a name"
if [ $ranks = 2 ]; then
    refused text.txt/below "rank 1: $below" "by the last of two ranks" "${launch[@]}"
else
    skip 3 "neither UCX nor MPI"
fi
done_testing
