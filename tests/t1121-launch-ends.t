#!/bin/bash
# How ranks of megatron launch end: together, with the status and rank of the first failure in one line;
# signals; nothing stays.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"

# A program of this name alone, so that what stays is found.
cp "$(command -v sleep)" mg-sleep
wait_here="exec $PWD/mg-sleep 600"
left() {
    wait_until '! pgrep -f "^$TEST_DIR/mg-sleep" >/dev/null' && echo none
}

for n in 2 8 64; do
    run megatron launch -n "$n" sh -c "[ \$RANK = 1 ] && exit 7; $wait_here"
    is "$status:$out:$err" "7::megatron launch: rank 1 has ended with status 7" "$n ranks: one fails"
    is "$(left)" none "and none stays"
done
run megatron launch -n 3 sh -c "[ \$RANK = 2 ] && kill -9 \$\$; $wait_here"
is "$status:$err" "137:megatron launch: rank 2 was ended by signal 9 (Killed)" "one is killed"
is "$(left)" none "and none stays"
run megatron launch -n 2 sh -c "trap '' TERM; [ \$RANK = 1 ] && exit 3; while :; do $PWD/mg-sleep 600; done"
is "$status:$err" "3:megatron launch: rank 1 has ended with status 3" "one does not hear SIGTERM"
is "$(left)" none "and is killed"
run megatron launch -n 2 sh -c "[ \$RANK = 1 ] || exec $PWD/mg-sleep 600 & [ \$RANK = 0 ] || exit 5; wait"
is "$(left)" none "what a rank has started goes with it"
run megatron launch -n 3 ./nothing
is "$status:$err" "127:megatron launch: ./nothing: No such file or directory" "a program that is not there"
touch no-program
run megatron launch -n 3 ./no-program
is "$status:$err" "126:megatron launch: ./no-program: Permission denied" "one that is none"

# start [VARIABLE...]: a launch in the background with ranks that wait; $pid.
start() {
    megatron launch -n 3 "$@" >start.out 2>start.err &
    pid=$!
    wait_until '[ "$(pgrep -f "^$TEST_DIR/mg-sleep" | wc -l)" = 3 ]'
}
# ^C again and again, until a launch has ended: two that come at once count as one.
interrupt() {
    while kill -INT "$pid" 2>/dev/null && kill -0 "$pid" 2>/dev/null; do
        sleep 0.3
        [ "$(ps -o stat= -p "$pid" | cut -c1)" != Z ] || break
    done
}
ended() {
    rc=0
    wait "$pid" 2>/dev/null || rc=$?
}

start sh -c "$wait_here"
kill -STOP "$(pgrep -f "^$TEST_DIR/mg-sleep" | head -n 1)"
kill -TERM "$pid"
ended
is "$rc" 143 "SIGTERM is passed on, to a rank that is stopped, too"
is "$(cat start.err)" "" "without a word"
is "$(left)" none "none stays"
start sh -c "$wait_here"
kill -INT "$pid"
ended
is "$rc" 130 "^C is passed on"
is "$(left)" none "none stays"
start sh -c "trap '' INT TERM; $wait_here"
kill -INT "$pid"
sleep 0.3
is "$(pgrep -f "^$TEST_DIR/mg-sleep" | wc -l)" 3 "ranks may stay after a ^C"
interrupt
ended
is "$rc" 130 "the second ^C ends them at once"
is "$(left)" none "none stays"
start sh -c "$wait_here"
kill -KILL "$pid"
ended
is "$rc" 137 "the launcher is killed"
is "$(left)" none "none stays"
start sh -c "$PWD/mg-sleep 600; :"
kill -KILL "$pid"
wait "$pid" 2>/dev/null
is "$(left)" none "nor what ranks have started"
megatron launch -n 2 sh -c 'trap "echo heard; exit 0" USR1; echo ready; while :; do sleep 0.1; done' >usr.out 2>&1 &
pid=$!
wait_until '[ "$(grep -c ready usr.out)" = 2 ]'
kill -USR1 "$pid"
ended
is "$rc:$(grep -c heard usr.out)" "0:2" "SIGUSR1 is passed on"

nohup megatron launch -n 2 sh -c 'echo ready; while [ ! -e over ]; do sleep 0.1; done' >hup.out 2>&1 &
pid=$!
wait_until '[ "$(grep -c ready hup.out)" = 2 ]'
kill -HUP "$pid"
sleep 0.3
: >over
ended
is "$rc" 0 "nohup keeps SIGHUP from the launcher and its ranks"

# ---- which failure was the first
# A rank that was killed and one that failed because of it, found at the same time.
megatron launch -n 2 sh -c "trap 'exit 3' USR2
    echo \$\$ >rank.\$RANK
    [ \$RANK = 0 ] || $wait_here
    while :; do $PWD/mg-sleep 0.1; done" 2>first.err &
pid=$!
wait_until '[ -s rank.0 ] && [ -s rank.1 ] && [ "$(ps -o comm= -p "$(cat rank.1)")" = mg-sleep ]'
kill -STOP "$pid"
kill -KILL "$(cat rank.1)"
kill -USR2 "$(cat rank.0)"
wait_until '[ "$(ps -o stat= -p "$(cat rank.0),$(cat rank.1)" | grep -c Z)" = 2 ]'
kill -CONT "$pid"
ended
is "$rc:$(cat first.err)" "137:megatron launch: rank 1 was ended by signal 9 (Killed)" \
    "the rank that was killed is named, not the one that failed because of it"

# A rank that was killed and has much memory to give back, and one that fails meanwhile.
mkfifo zeros
exec 4<>zeros
head -c 400000000 /dev/zero >zeros 4<&- &
megatron launch -n 2 sh -c "echo \$\$ >rank.\$RANK.pid
    [ \$RANK = 0 ] || exec tail -n 1 zeros
    until [ -s rank.1.pid ]; do $PWD/mg-sleep 0.1; done
    while read -r stat </proc/\$(cat rank.1.pid)/stat; do
        set -- \$stat
        [ \$((\$9 & 0x404)) = 0 ] || exit 3
    done" 2>leaving.err &
pid=$!
wait_until '[ -s rank.1.pid ] && [ "$(ps -o rss= -p "$(cat rank.1.pid)")" -gt 300000 ]'
kill -KILL "$(cat rank.1.pid)"
ended
is "$rc:$(cat leaving.err)" "137:megatron launch: rank 1 was ended by signal 9 (Killed)" \
    "a rank that is about to end is waited for"
exec 4<&-

# ---- a reader that does not read, a failure after a signal
mkfifo slow
megatron launch -n 2 --label sh -c "trap '' INT TERM; yes" >slow 2>/dev/null &
pid=$!
exec 4<slow
sleep 0.5
interrupt
ended
is "$rc" 130 "the second ^C is heard while nobody reads"
exec 4<&-
megatron launch -n 2 sh -c 'trap "exit 9" INT; echo ready; while :; do sleep 0.1; done' >int.out 2>int.err &
pid=$!
wait_until '[ "$(grep -c ready int.out)" = 2 ]'
kill -INT "$pid"
ended
is "$rc" 9 "ranks that fail after a ^C"
like "$(cat int.err)" "^megatron launch: rank [01] has ended with status 9$" "are named"

# ---- PyTorch's ranks
if python3 -c 'import torch.distributed' 2>/dev/null; then
    cat >gloo.py <<'END'
import torch, torch.distributed as dist
dist.init_process_group("gloo")
x = torch.ones(3) * dist.get_rank()
dist.all_reduce(x)
print(int(x[0]))
END
    run megatron launch -n 3 python3 gloo.py
    is "$status:$out" "0:3
3
3" "gloo"
else
    skip 1 "python3 has no torch"
fi
done_testing
