#!/bin/bash
# The harness itself: a failed check, a crash, a hang and an interrupt are seen, and a
# test's directory and undo commands are dealt with in each case.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"

outer=$TEST_DIR
# script BODY: a test of its own, which makes the file "there" when it comes to BODY.
script() {
    printf '#!/bin/bash\n. "%s/tests/lib/test.sh"\n%s\n%s\n%s\n' "$MG_SRCDIR" \
        "pwd > '$outer/where'; at_exit 'echo undone >> $outer/undone'" ": > '$outer/there'" \
        "$1" > inner
    chmod +x inner
    rm -f undone where there
}

# cleaned WHAT: the directory is gone and the undo command ran, once.
cleaned() {
    ok "[ -s where ] && [ ! -e \"\$(cat where)\" ]" "$1: its directory is removed"
    is "$(cat undone 2>/dev/null)" undone "$1: its undo command ran once"
}

script 'ok true fine; is 1 1 same; like abc "^a" alike; done_testing'
run ./inner
is "$status" 0 "a test that passes exits with 0"
is "$out" $'ok 1 - fine\nok 2 - same\nok 3 - alike\n1..3' "and prints this"
cleaned "passed test"

script 'ok false bad; is 1 2 "hash # here"; like abc "^b" unlike; skip 1 why; done_testing'
run ./inner
is "$status" 1 "a test that fails exits with 1"
is "$(grep -v '^#' <<<"$out")" $'not ok 1 - bad\nnot ok 2 - hash / here
not ok 3 - unlike\nok 4 # SKIP why\n1..4' "and prints this"
like "$out" '# failed at inner:[0-9]+' "with the place"
cleaned "failed test"

script 'skip_all "no such thing"'
run ./inner
is "$status:$out" "0:1..0 # SKIP no such thing" "a test can be skipped"
cleaned "skipped test"

script 'bail_out "no way"'
run ./inner
is "$status:$out" "1:Bail out! no way" "a test can give up"
cleaned "test that gave up"

# run-test: time and signals
# timed: under run-test, with a limit that is long enough to come to BODY.
timed() {
    for limit in 1 5 25 125; do
        rm -f undone where there
        MG_TEST_TIMEOUT=$limit run "$MG_SRCDIR/tests/lib/run-test" ./inner
        [ ! -e there ] || break
    done
}
script 'sleep 600; ok true fine; done_testing'
timed
ok "[ $status != 0 ]" "a test that hangs is ended"
like "$out" "# not done after $limit seconds" "and that is said"
cleaned "test that hung"

# A program that ignores SIGTERM holds up the test's own clean-up for ever; a test that is
# killed has none.
long="( trap '' TERM; : > '$outer/there'; exec sleep 600 )"
for body in "$long" 'kill -KILL $$'; do
    script "undo_later 'echo undone >> $outer/undone'; test_undo=(); $body; done_testing"
    sed -i 4d inner # not yet "there"
    MG_TEST_GRACE=1 timed
    ok "[ $status != 0 ]" "a test that cannot clean up has failed"
    cleaned "test that could not clean up"
done

# mpi_run: a launcher whose ranks have ended, and are zombies or gone
. "$MG_SRCDIR/tests/lib/mpi.sh"
mkdir bin
MG_MPIRUN=$outer/bin/mpirun mpi_lost_seconds=3
for body in 'fork or exit; sleep 600' 'sleep 600'; do
    printf '#!/usr/bin/perl\n%s;\n' "$body" >bin/mpirun
    chmod +x bin/mpirun
    run mpi_run 1 true
    is "$status" 137 "an mpirun that stays is ended: $body"
    like "$err" "mpirun stayed for 3 s after its ranks had ended" "and that is said"
done
body='$p = fork or exec qw(sleep 600); sleep 8; kill KILL => $p; wait'
printf '#!/usr/bin/perl\n%s;\n' "$body" >bin/mpirun
run mpi_run 1 true
is "$status:$err" "0:" "one that has a rank alive is left alone"

export MG_TEST_TIMEOUT=300
for signal in INT TERM; do
    script 'sleep 600; ok true fine; done_testing'
    env --default-signal=INT "$MG_SRCDIR/tests/lib/run-test" ./inner > out 2>&1 &
    pid=$!
    wait_until '[ -e there ]' $pid
    kill -s $signal $pid
    rc=0
    wait $pid || rc=$?
    ok "[ $rc != 0 ]" "a test is ended by SIG$signal to its runner"
    cleaned "test after SIG$signal"
done
done_testing
