#!/bin/bash
# The harness itself: a failed check, a crash, a hang and an interrupt are seen, and a
# test's directory and undo commands are dealt with in each case.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"

unset MG_TEST_TIMES MG_TEST_KIND MG_VALGRIND # those of this test
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

# shellcheck disable=SC2016
script 'still() { trap exit TERM; while :; do sleep 0.1; done; }
    for ((i = 0; i < 300; i++)); do still & kill $!; wait $!; done 2>/dev/null
    ok "[ -d $TEST_DIR ] && [ ! -e undone ]" fine; done_testing'
run ./inner
is "$status" 0 "a part of a test that is ended at once leaves the test its directory" || diag "$out"
cleaned "test whose parts were ended"

# run-test: time and signals
# timed: under run-test, with a limit that is long enough to come to BODY.
timed() {
    for limit in 1 5 25 125; do
        rm -f undone where there
        MG_TEST_TIMEOUT=$limit run "$MG_SRCDIR/tests/lib/run-test" ./inner
        [ ! -e there ] || break
    done
}
script 'while sleep 0.2; do :; done; ok true fine; done_testing'
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

printf '#!/bin/sh\nexit 3\n' >bin/mpirun
said=
for ((i = 0; i < 100; i++)); do
    run mpi_run 1 true
    [ "$status:$err" = 3: ] || said+="$status:$err"$'\n'
done
is "$said" "" "one that ends at once is all that speaks"

# mpi_run: a launcher that says that a rank ended improperly, after a run in which all was right
improper() {
    cat >bin/mpirun <<'END'
#!/bin/sh
line=--------------------------------------------------------------------------
printf '%s\nmpirun has exited due to process rank 2 with PID 0 on\nnode vm exiting improperly. %s\n\n%s\n%s\n' \
    $line "There are" "1. this process did not call" $line >&2
END
    echo "$1" >>bin/mpirun
    run mpi_run 1 true
}
improper 'exit 1'
is "$status:$err" "0:" "it is believed that all was right"
improper 'exit 1'
is "$status:$(grep -c improperly <<<"$err")" "1:1" "but only once in a test"
rm -r mpirun-lost
improper 'echo "megatron train: no" >&2; exit 1'
is "$status:$(tail -n 1 <<<"$err")" "1:megatron train: no" "not if a rank says what failed"
improper 'exit 3'
is "$status" 3 "nor with the status of a rank"

# ---- ranks_run: a launch that fails is told of
if [ -e "$MG_BUILDDIR/.libs/comm_ucx.so" ]; then
    # shellcheck disable=SC2016
    script '. "$MG_SRCDIR/tests/lib/ranks.sh"
        run ranks_run 2 sh -c "[ \$RANK = 0 ] || { echo I cannot >&2; exit 3; }; sleep 600"
        is "$status" 0 bad; is 1 2 other; run ranks_run 1 true; is 1 2 third; done_testing'
    run env MG_TEST_LAUNCHER=launch MEGATRON_MODULE_DIR="$MG_BUILDDIR/.libs" ./inner
    is "$(sed -n '/^not ok 1/,/^not ok 2/p' <<<"$out" | grep -o 'launch: .*' | sed 's/ranks: .*/ranks/')" \
        "launch: status 3 of 2 ranks
launch: I cannot
launch: megatron launch: rank 1 has ended with status 3" "a failed check shows the rank, the status, what was said"
    is "$(grep -c '^# launch' <<<"$out")" 3 "and no later one does"
else
    skip 2 "the module for UCX was not built"
fi

# ---- run-test: times
script 'env true; sleep 0.2; perl -e "1 while times < 0.5"; ok true fine; done_testing'
MG_TEST_TIMES=$outer/took MG_TEST_KIND=odd run "$MG_SRCDIR/tests/lib/run-test" "$outer/inner"
is "$status" 0 "a test whose time is taken" || diag "$out$err"
read -r name took cpu <took
is "$(wc -l <took):$name" "1:$outer/inner:odd" "has a line with its name"
ok "awk 'BEGIN { exit !($took >= 0.7 && $cpu >= 0.5) }'" "its seconds, and those of a processor"
script 'is 1 2 bad; done_testing'
MG_TEST_TIMES=$outer/took run "$MG_SRCDIR/tests/lib/run-test" ./inner
is "$status:$(wc -l <took)" 1:2 "one that fails, too, and its status stays"

# ---- run-test: valgrind
if command -v valgrind >/dev/null && command -v cc >/dev/null; then
    printf '#include <stdlib.h>\nint main (int n, char **v)\n{\n    char *p = malloc (9);\n%s\n}\n' \
        '    if (n < 2) free (p);  return v[0] == p;' >found.c
    cc -O0 -o found found.c
    MG_VALGRIND=1 MG_TEST_TIMES=$outer/took run "$MG_SRCDIR/tests/lib/run-test" ./found
    is "$status:$out" 0: "valgrind finds nothing in a good program" || diag "$err"
    like "$(tail -n 1 took)" "^./found:valgrind " "and its time is that of another kind of run"
    MG_VALGRIND=1 run "$MG_SRCDIR/tests/lib/run-test" ./found leak
    is "$status" 1 "a leak is a failure"
    like "$out" '# valgrind found:.* 9 bytes in 1 blocks are definitely lost' "which is told"
    MG_VALGRIND=1 run "$MG_SRCDIR/tests/lib/run-test" tests/unit/cmd/fault.t
    like "$status:$out" '^0:1\.\.0 # SKIP valgrind takes' "what it cannot run is skipped, with a reason"
else
    skip 5 "valgrind or cc is not installed"
fi

# ---- the table of times
times=$MG_SRCDIR/tests/lib/times
printf '# head\ntests/slow.t 90.0 9.0\ntests/slower.t 95.0 30.0\n' >kept
printf 'tests/slow.t 150.04 80\ntests/new.t 7 1\ntests/unit/quick.t 0.3 0.2\n' >took
is "$("$times" order kept tests/unit/quick.t tests/slow.t tests/new.t tests/slower.t | tr '\n' ' ')" \
    "tests/slower.t tests/slow.t tests/new.t tests/unit/quick.t " "long tests come first"
run "$times" show kept took
like "$out" 'tests/slow.t +90.0 +150.0 +80.0  above 100 s  has grown' "what has grown is told"
like "$out" 'tests/new.t +- +7.0 +1.0'$'\n' "and what is new"
like "$out" $'\n''3 tests +157 +81$' "and the sum"
"$times" update kept took >updated
is "$(cat updated)" "# head
tests/slow.t 150.0 80.0
tests/slower.t 95.0 30.0
tests/new.t 7.0 1.0" "the table is brought up to date"
while read -r name _; do
    name=${name%%:*} # a kind of run
    [ -e "$MG_SRCDIR/${name%.t}.c" ] || [ -e "$MG_SRCDIR/$name" ] || echo "$name"
done < <(grep -v '^#' "$MG_SRCDIR/tests/times") >gone
is "$(cat gone)" "" "all tests in the kept table exist"

# ---- draws: a seed for each commit, or the one that is asked for
seed=$("$MG_SRCDIR/tests/lib/seed")
like "$seed" '^[0-9]+$' "the sources give a seed"
is "$("$MG_SRCDIR/tests/lib/seed")" "$seed" "always the same"
mkdir -p other/tests/lib other/build-aux
cp "$MG_SRCDIR/tests/lib/seed" other/tests/lib
printf '#!/bin/sh\nprintf 1.2.3' >other/build-aux/gen-version
chmod +x other/build-aux/gen-version
like "$(other/tests/lib/seed)" '^[0-9]+$' "so does a version where there is no commit"
if command -v git >/dev/null; then
    git -C other init -q
    for text in one two; do
        git -C other -c user.name=a -c user.email=a@b commit -q --allow-empty -m $text
        other/tests/lib/seed >>seeds
    done
    is "$(sort -u seeds | grep -c '^[0-9][0-9]*$')" 2 "two commits have two seeds"
else
    skip 1 "git is not installed"
fi
script 'seed_draws; some 2 a b c d e f g h; echo "drew $RANDOM ${some[*]}"; done_testing'
unset MG_LONG MG_SEED
run ./inner
like "$out" "^# MG_SEED=$seed"$'\n'"drew " "a test tells the seed"
first=$out
run "$MG_SRCDIR/tests/lib/run-test" ./inner
is "$out" "$first" "and has the same in the harness"
MG_SEED=7 run ./inner
like "$out" "^# MG_SEED=7"$'\n'"drew [0-9]+ [a-h] [a-h]"$'\n' "MG_SEED is taken"
[ "$seed" = 7 ] || ok "[ '${out#*drew}' != '${first#*drew}' ]" "and gives other draws"
MG_LONG=1 run ./inner
like "$out" "drew [0-9]+ a b c d e f g h" "a long run takes all"

export MG_TEST_TIMEOUT=300
for signal in INT TERM; do
    # short sleeps: a signal that comes just before bash starts one waits for its end
    script 'while sleep 0.2; do :; done; ok true fine; done_testing'
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
