#!/bin/bash
# A rank under megatron launch that dies, stops, leaves or does something else than the others, at
# each stage of a job over UCX, with neither PMIx nor MPI in reach.  (t3042 has it while a model
# trains.)
# MG_LONG=1: each rank that matters, killed and stopped, at each place; otherwise two.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/hurt.sh"

[ -e "$MG_BUILDDIR/.libs/comm_ucx.so" ] || skip_all "the module for UCX was not built"
ends=$MG_BUILDDIR/tests/unit/job/ends.t
[ -x "$ends" ] || skip_all "$ends is not built (make check builds it)"
mkdir modules
ln -s "$MG_BUILDDIR/.libs/comm_ucx.so" modules
export MEGATRON_MODULE_DIR=$PWD/modules OMP_NUM_THREADS=1
seconds=$(($(patience 2000) / 1000)) # in which ranks meet

# ends MODE: among 5 ranks
ends() {
    run megatron launch -n 5 "$ends" "$1" $seconds
    lines=$(grep -v '^megatron launch: ' <<<"$err")
    is "$(pgrep -x ends.t | sed 's|.*|/proc/&/cwd|' | xargs -r readlink | grep -cxF "$TEST_DIR")" 0 \
        "$1: no process is left"
}

# failed TEXT STATUS: the job ended with it, and the launcher says so in one line
failed() {
    is "$status" "$2" "$1: the job ends with the status of the rank" || diag "$err"
    is "$(grep -c '^megatron launch: rank [0-4] ' <<<"$err")" 1 "$1: one line names the rank"
}

ends cycle
is "$status:$out:$err" "0::" "a job begins and ends without a word"
ends strangers
is "$status:$out:$err" "0::" "a job to which others send empty datagrams goes on"
ends leave-early
ok "[ $status != 0 ]" "a rank leaves before the first exchange"
like "$lines" "rank 4" "and is named"
ends hang-early
ok "[ $status != 0 ]" "a rank stands before the first exchange"
like "$lines" "rank 4 (of 5 )?has not come within $seconds s|rank 4" "and is named"
ends fingerprint
ok "[ $status != 0 ]" "a rank has other arguments"
like "$lines" "rank 1" "and is named"
ends die
failed "killed in a collective" 137
ends abort
failed "an abort with a stuck call" 86
ends deadline
failed "a rank that does not come to a collective" 3
like "$lines" "rank [1-4]: all-reduce of 4096 float32 on world waited $seconds s" "what waited is named"
if long; then
    ends late
    ok "[ $status != 0 ]" "a rank that does not come to the end"
fi
ends mismatch
failed "different counts" 3
like "$lines" "all-reduce of 10[01] float32 on world: .*the ranks' counts differ" "are named"
ends short
failed "a message that is too short" 3
like "$lines" "broadcast of 101 float32 on world: .*sent 400 bytes .*the ranks' counts differ" "is named"
hurt_rank "before the others meet" $seconds STOP exchange 0 megatron launch -n 5
hurt_rank "while the others agree" $seconds STOP agreement 2 megatron launch -n 5
hurt_rank "while the others leave" $seconds STOP end 3 megatron launch -n 5
if long; then
    for place in exchange agreement meeting end; do
        for rank in 0 2 4; do
            hurt_rank "stopped" $seconds STOP $place $rank megatron launch -n 5
            hurt_rank "killed" $seconds KILL $place $rank megatron launch -n 5
        done
    done
fi
ends leave
ok "[ $status != 0 ]" "a rank ends the job because of its own failure"
like "$lines" 'rank 1: rank 1 has had enough' "with its text"
done_testing
