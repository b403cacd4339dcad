#!/bin/bash
# contrib/examples/train.c: it learns its task, and goes on where it stopped, also on another layout,
# with the same losses.  (t2003-library.t has it under srun.)
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/ranks.sh"

command -v cc >/dev/null || skip_all "cc is not installed"
! ldd "$MG_BUILDDIR/.libs/libmegatron.so" | grep -q 'lib[a-z]*san' \
    || skip_all "the library is built with sanitizers"
run cc -O2 -Wall -Wextra -Werror -o train "$MG_SRCDIR/contrib/examples/train.c" \
    -I"$MG_SRCDIR/libcore/include" -I"$MG_BUILDDIR/libcore/include" \
    -L"$MG_BUILDDIR/.libs" -lmegatron
is "$status:$err" "0:" "the program is built"
export LD_LIBRARY_PATH=$MG_BUILDDIR/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} OMP_NUM_THREADS=1

iters=(--lr-decay-iters 200 --train-iters)
run ./train "${iters[@]}" 100
is "$status:$err" "0:" "alone it trains"
one=$out
is "$(grep -cE '^ +[0-9]+: loss [0-9.]+, of unseen rows [0-9.]+, rate .*, norm ' <<<"$one")" 5 \
    "and shows its loss" || diag "$one"
loss() { sed -n "s/^ *$1: loss \([0-9.]*\), of unseen rows \([0-9.]*\),.*/\\$2/p" <<<"$one"; }
ok "awk 'BEGIN { exit !($(loss 20 1) > 2 && $(loss 100 1) < 0.7) }'" \
    "it learns the task: $(loss 20 1), $(loss 100 1)"
ok "awk 'BEGIN { exit !($(loss 100 2) < 1.2) }'" \
    "also of rows that it has never seen: $(loss 100 2)"
run ./train --seq-length 15
is "$status:$(grep -c . <<<"$err")" "1:1" "a wrong argument is one line"
like "$err" "^train: iteration 1: sample .* tokens: 16 values, want 1 to 15" "which says what is wrong"

if ranks_available; then
    run ranks_run 8 ./train --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 \
        --save ck --load ck "${iters[@]}" 40
    is "$status" 0 "eight ranks train" || diag "$err"
    before=$out
    run ranks_run 2 ./train --pipeline-model-parallel-size 2 --save ck --load ck "${iters[@]}" 80
    is "$status" 0 "two go on" || diag "$err"
    # a last digit may differ, as sums are taken in other orders
    ok "paste -d ' ' <(printf '%s\n%s\n' '$before' '$out') <(head -n 4 <<<'$one') \
        | tr -d , | awk '{ d = \$3 - \$14; e = \$7 - \$18; n += \$1 == \$12 && d * d < 1e-7 && e * e < 1e-7 }
                         END { exit n != 4 }'" "with the losses of one rank" || diag "$before" "$out" "$one"
    ranks_run 2 ./train --lr-decay-iters 200 --train-iters 100000000 >die.out 2>die.err &
    pid=$!
    wait_until '[ -s die.out ]' $pid
    kill -KILL "$(pgrep -x train | sed 's|.*|/proc/&/cwd &|' | while read -r cwd p; do
        [ "$(readlink "$cwd")" != "$TEST_DIR" ] || echo "$p"; done | tail -n 1)"
    wait $pid && rc=0 || rc=$?
    ok "[ $rc != 0 ]" "a rank is killed"
    like "$(cat die.err)" "(^|"$'\n'")train: rank [01] (on [^ ]* )?died" "the report has the name of the program"
else
    skip 5 "neither UCX nor MPI"
fi
done_testing
