#!/bin/bash
# What a run says: iteration lines and their means, throughput, timers across ranks, memory.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/ranks.sh"
. "$MG_SRCDIR/tests/lib/train.sh"

make_text a.txt 20
megatron data tokenize --input a.txt --output-prefix a --append-eod >/dev/null
train=(megatron train --num-layers 2 --hidden-size 16 --num-attention-heads 2 --seq-length 16
       --tokenizer-type ByteLevel --micro-batch-size 2 --global-batch-size 8 --train-iters 7
       --train-data-path a_text_document --lr 1e-2)

# lines: number and loss of every iteration line
lines() {
    sed -n 's|^ \[.* iteration  *\([0-9]*\)/.* lm loss: \([^ ]*\) .*|\1 \2|p' <<<"$out"
}

# ---- means since the last line
run "${train[@]}" --metrics-file m.json
is "$status" 0 "a run" || diag "$err"
is "$(lines | wc -l)" 7 "a line for each iteration"
losses=$(sed 's/.*"lm loss": \([^,]*\).*/\1/' m.json)
run "${train[@]}" --log-interval 3 --metrics-file n.json
is "$(wc -l <n.json)" 7 "metrics of each iteration all the same"
want=$(awk '{ sum += $1; n++ } NR == 1 { printf "1 %.6E\n", $1 }
            NR % 3 == 0 { printf "%d %.6E\n", NR, sum / n; sum = n = 0 }' <<<"$losses")
same() {
    awk 'NR == FNR { a[FNR] = $1; x[FNR] = $2; n = FNR; next }
         { d = $2 / x[FNR] - 1; if ($1 != a[FNR] || d > 2e-6 || d < -2e-6) bad = 1 }
         END { exit bad || FNR != n || n == 0 }' <(echo "$1") <(echo "$2")
}
ok 'same "$(lines)" "$want"' "the first iteration, then means of three"
is "$(lines | cut -d' ' -f1 | tr '\n' ' ')" "1 3 6 " "which reset nothing out of turn"
ok "! grep -q 'throughput\|tokens per' <<<'$out'" "no throughput unless it is asked for"
like "$(tail -n 1 n.json)" ', "tokens per second": [0-9.]+, "throughput per GPU \(TFLOP/s/GPU\)": [0-9.e-]+}$' \
    "but in the metrics"
# operations of an iteration: 8 sequences of 16, vocabulary 257 padded to 384
ok "awk -F'[:,}]' '{ for (i = 1; i < NF; i++) { if (\$i ~ /elapsed/) ms = \$(i + 1)
        if (\$i ~ /tokens per/) tokens = \$(i + 1); if (\$i ~ /TFLOP/) tflops = \$(i + 1) }
        if (tokens * ms / 128000 - 1 > 1e-6 || tokens * ms / 128000 - 1 < -1e-6) bad = 1
        ops = 6 * 128 * (2 * (16 * 64 * 2 + 16 * 48 + 256) + 16 * 384) + 6 * 128 * 16 * 16 * 2
        if (tflops * 1e9 * ms / ops - 1 > 1e-6 || tflops * 1e9 * ms / ops - 1 < -1e-6) bad = 1 }
        END { exit bad }' n.json" "as Megatron-LM counts it"
run "${train[@]}" --log-interval 7 --log-throughput
like "$out" "elapsed time per iteration \(ms\): [0-9.]+ \| throughput per GPU \(TFLOP/s/GPU\): [0-9.]+ \| tokens per second: [0-9.]+ \| learning rate: " "--log-throughput"
ok "! grep -q 'time across' <<<'$out'" "no timers unless they are asked for"

# ---- an implementation of device graphs that is another here
run "${train[@]}" --train-iters 1 --external-cuda-graph
is "$status:$(grep -c 'transformer_engine is taken as local' <<<"$out")" 0:1 "is told once" \
    || diag "$err"
run "${train[@]}" --train-iters 1 --cuda-graph-impl none --cuda-graph-modules attn mlp
is "$status:$(grep -c 'taken as' <<<"$out")" 0:0 "without graphs nothing is" || diag "$err"

# ---- memory
run "${train[@]}" --log-interval 7 --log-throughput
is "$(grep -c '^ (after set-up) memory (MB) | parameters and optimizer: ' <<<"$out")" 1 \
    "memory after the set-up"
is "$(grep -c 'memory (MB)' <<<"$out")$(grep -c '^ (after 1 iterations) memory' <<<"$out")" 21 \
    "and after the first iteration"
planned=$(sed -n 's/^ (after set-up).* planned: \([0-9.]*\) .*/\1/p' <<<"$out")
like "$out" "rank 0 takes [0-9.]+ MiB for parameters" "the plan is told"
ok "awk 'BEGIN { exit !($planned > 0.1 && $planned < 100) }'" "it is $planned"
line=$(grep '^ (after 1 it' <<<"$out")
like "$line" "\| resident: [0-9]+\.[0-9]{2} \| max resident: [0-9]+\.[0-9]{2} \|$" \
    "and the resident set"
run "${train[@]}" --log-memory-interval 2
is "$(sed -n 's/^ (after \([0-9]*\) iter.*/\1/p' <<<"$out" | tr '\n' ' ')" "1 2 4 6 " \
    "--log-memory-interval"

# ---- timers
level1="forward-backward layernorm-grads-all-reduce embedding-grads-all-reduce all-grads-sync"
level1+=" optimizer-clip-main-grad optimizer-inner-step optimizer "
run "${train[@]}" --timing-log-level 1 --log-interval 7
is "$(grep -c '^(min, max) time across ranks (ms):$' <<<"$out")" 2 "timers with each line"
is "$(sed -n 's/^    \([a-z-]*\) \.*: ([0-9.]*, [0-9.]*)$/\1/p' <<<"$out" | head -7 | tr '\n' ' ')" \
    "$level1" "those of level 1"
ok "! grep -q forward-compute <<<'$out'" "and no other"
# in the last lines: parts are not longer than the whole, an iteration not shorter than them
ok "awk -v ms=\"\$(sed -n 's/.*iteration (ms): \([0-9.]*\) .*/\1/p' <<<'$out' | tail -n 1)\" \
    '{ t[\$1] = \$NF + 0 } END { exit !(t[\"forward-backward\"] + t[\"optimizer\"] <= ms + 0.1 \
    && t[\"optimizer-inner-step\"] <= t[\"optimizer\"] + 0.01 && \"forward-backward\" in t) }' \
    <<<\"\$(tail -n 7 <<<'$out' | tr -d '()')\"" "their sums fit into the iteration"
run "${train[@]}" --timing-log-level 2 --timing-log-option max
is "$(sed -n 's/^    \([a-z-]*\) \.*: [0-9.]*$/\1/p' <<<"$out" | head -10 | tail -3 | tr '\n' ' ')" \
    "batch-generator forward-compute backward-compute " "those of level 2, as max"
is "$(grep -c '^max time across ranks (ms):$' <<<"$out")" 7 "with each line"
if ranks_available; then
    sharded=(--use-distributed-optimizer --timing-log-level 1 --log-interval 7)
    for overlap in "" "--overlap-grad-reduce --overlap-param-gather"; do
        # shellcheck disable=SC2086
        run ranks_run 2 "${train[@]}" "${sharded[@]}" $overlap
        is "$status" 0 "distributed optimizer $overlap" || diag "$err"
        is "$(sed -n 's/^    \([a-z-]*\) \.*: ([0-9.]*, [0-9.]*)$/\1/p' <<<"$out" | head -8 \
            | tail -4 | tr '\n' ' ')" \
            "optimizer-clip-main-grad optimizer-inner-step params-all-gather optimizer " \
            "its timers"
        tail -n 8 <<<"$out" | tr -d '(),' >times
        ok "awk '{ t[\$1] = \$NF }
            END { exit !(t[\"optimizer\"] + 0.05 >= t[\"params-all-gather\"] && \"optimizer\" in t) }' \
            times" "a gathering is part of the optimizer" || diag "$(cat times)"
    done
    run ranks_run 2 "${train[@]}" --pipeline-model-parallel-size 2 --timing-log-level 2 \
        --timing-log-option all --log-interval 7
    is "$status" 0 "two stages" || diag "$err"
    is "$(grep -A2 '^  forward-recv:' <<<"$out" | tail -n 2 | grep -c 'rank  1: ')" 1 \
        "the second waits for the first"
    is "$(grep -A1 '^  forward-recv:' <<<"$out" | grep -c 'rank  0: ')" 0 "which waits for nobody"
    is "$(grep -A2 '^  forward-compute:' <<<"$out" | grep -c 'rank  [01]: [0-9.]*$')" 4 "all ranks"
    like "$out" "\(after 1 iterations\) memory \(MB\) \| parameters and optimizer: [0-9.]+ \(rank [01]\)" \
        "memory tells the rank that has most"
else
    skip 1 "neither UCX nor MPI"
fi

# One line for what is wrong
while IFS='|' read -r want args; do
    # shellcheck disable=SC2086
    run "${train[@]}" $args
    is "$status" 2 "refused: $args"
    like "$err" "^megatron train: $want" "says why"
    is "$(grep -ac . <<<"$err")" 1 "in one line"
done <<END
--timing-log-level: 3|--timing-log-level 3
--timing-log-option: "some" is not max, minmax or all|--timing-log-option some
--log-memory-interval 5 is not a multiple of --log-interval 2|--log-memory-interval 5 --log-interval 2
--log-throughput takes no value|--log-throughput=1
END
done_testing
