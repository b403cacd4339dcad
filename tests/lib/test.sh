# test.sh - write Test Anything Protocol from a shell test.  Source it:
#
#     #!/bin/bash
#     . "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
#     run megatron --version                # leaves $status, $out and $err
#     is "$status" 0 "--version works"
#     ok "[ -s file ]" "file is there"      # any shell command
#     done_testing
#
# Sets MG_SRCDIR, MG_BUILDDIR, MG_SHARED, MEGATRON_MODULE_DIR (where make check did not),
# puts the built command first on PATH, and changes to a private directory, $TEST_DIR,
# which is removed at the end.  More to undo: at_exit 'COMMAND', and undo_later for what
# would outlive a test that is killed.

MG_SRCDIR=${MG_SRCDIR:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)}
MG_BUILDDIR=${MG_BUILDDIR:-$MG_SRCDIR/build}
MG_SHARED=${MG_SHARED:-$MG_SRCDIR/../shared}
MEGATRON_MODULE_DIR=${MEGATRON_MODULE_DIR:-$MG_BUILDDIR/.libs}
PATH=$MG_BUILDDIR:$PATH
export MG_SRCDIR MG_BUILDDIR MG_SHARED MEGATRON_MODULE_DIR PATH
export LC_ALL=C

test_checks=0
test_failed=0
test_undo=()

test_cleanup() {
    local i
    # A part of a test that runs in the background and is ended before bash has reset its traps runs
    # those of the test.
    [ "$BASHPID" = $$ ] || return 0
    trap : HUP INT TERM # a second signal must not cut this short
    for ((i = ${#test_undo[@]} - 1; i >= 0; i--)); do
        eval "${test_undo[i]}"
    done
    test_undo=()
    cd / && rm -rf ${TEST_DIR:+"$TEST_DIR"} "$test_undo_file"
}

# Undo with 'COMMAND' when the test ends, however it ends; the last one runs first.
at_exit() {
    test_undo+=("$1")
}

# undo_later 'COMMAND': for sh, in case that this test does not come to its end.  It is
# forgotten when test_cleanup has run.
test_undo_file=${MG_TEST_UNDO:-/nonexistent}/$$
undo_later() {
    [ ! -d "${test_undo_file%/*}" ] || echo "$1" >>"$test_undo_file"
}

# long: is this a run that has a night?
long() {
    [ -n "${MG_LONG:-}" ] && [ "$MG_LONG" != 0 ]
}

# seed_draws: what $RANDOM draws follows from MG_SEED, which is told; by default from the commit.
seed_draws() {
    : "${MG_SEED:=$("$MG_SRCDIR/tests/lib/seed")}"
    RANDOM=$MG_SEED
    diag "MG_SEED=$MG_SEED"
}

# some N WORD...: words into ${some[@]}: all of them in a long run, else N that are drawn.
some() {
    local n=$1 i
    shift
    some=("$@")
    long && return
    while [ ${#some[@]} -gt "$n" ]; do
        i=$((RANDOM % ${#some[@]}))
        some=("${some[@]:0:i}" "${some[@]:i + 1}")
    done
}

# patience MS: so many milliseconds, or more where the machine is slow, or has more to do than
# it can: as often as there are tasks for a CPU, now or in the last minute, or as 20 programs
# take longer to start than the 100 ms that are plenty elsewhere.
patience() {
    local i start slow
    start=$(date +%s%N)
    for ((i = 0; i < 20; i++)); do env true; done
    slow=$((($(date +%s%N) - start) / 100000))
    awk -v ms="$1" -v cpus="$(env -u OMP_NUM_THREADS nproc)" -v slow=$slow '{
        sub ("/.*", "", $4)
        for (i = 1; i <= 4; i += 3) if ($i / cpus * 1000 > slow) slow = $i / cpus * 1000
        print int (ms * (slow > 1000 ? slow / 1000 : 1)) }' /proc/loadavg
}

# apart_seconds MS: as patience, in seconds, but 20 at most: so long may ranks be apart when they start,
# and a test waits that long for each that never comes.
apart_seconds() {
    local ms
    ms=$(patience "$1")
    echo $((ms < 20000 ? ms / 1000 : 20))
}

# wait_until 'COMMAND' [PID]: until this is true, by polling, which takes a third of a processor or
# less.  False, and told, where PID has ended without it, or after minutes, which no machine takes.
wait_until() {
    local test_end=$((SECONDS + 600)) test_over= test_began test_pause
    while test_began=${EPOCHREALTIME/[!0-9]/}; ! eval "$1" >/dev/null 2>&1; do
        test_pause=$((2 * (${EPOCHREALTIME/[!0-9]/} - test_began)))
        if [ -n "$test_over" ] || [ $SECONDS -ge $test_end ]; then
            diag "never came: $1"
            return 1
        fi
        # what it did last may be seen only now
        [ -z "${2:-}" ] || kill -0 "$2" 2>/dev/null || test_over=1
        test_pause=$((test_pause < 20000 ? 20000 : test_pause > 500000 ? 500000 : test_pause))
        sleep 0."$(printf '%06d' $test_pause)"
    done
}

TEST_DIR=
trap test_cleanup EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM
TEST_DIR=$(mktemp -d "${TMPDIR:-/tmp}/megatron-test.XXXXXX") || exit 1
undo_later "rm -rf '$TEST_DIR'"
cd "$TEST_DIR" || exit 1

# result PASS TEXT: one TAP line.
test_result() {
    local text=${2//#//}
    test_checks=$((test_checks + 1))
    if [ "$1" = 0 ]; then
        echo "ok $test_checks - ${text//$'\n'/ }"
    else
        test_failed=$((test_failed + 1))
        echo "not ok $test_checks - ${text//$'\n'/ }"
        echo "# failed at ${BASH_SOURCE[2]##*/}:${BASH_LINENO[1]}"
        if [ -s "$TEST_DIR/.launch" ]; then # of ranks_run
            sed 's/^/# launch: /' "$TEST_DIR/.launch"
            rm "$TEST_DIR/.launch"
        fi
    fi
    return "$1"
}

# diag TEXT: comment lines.
diag() {
    printf '%s\n' "$*" | sed 's/^/# /'
}

# ok COMMAND TEXT: the shell command succeeds; its output is shown if it does not.
ok() {
    local text rc=0
    text=$(eval "$1" 2>&1) || rc=1
    test_result "$rc" "$2" || { diag "$1"; diag "$text"; return 1; }
}

# is GOT WANT TEXT: equal texts.
is() {
    local rc=0
    [ "$1" = "$2" ] || rc=1
    test_result "$rc" "$3" || { diag " got: $1"; diag "want: $2"; return 1; }
}

# like GOT REGEX TEXT: the text matches the extended regular expression.
like() {
    local rc=0
    [[ $1 =~ $2 ]] || rc=1
    test_result "$rc" "$3" || { diag " got: $1"; diag "want: $2"; return 1; }
}

# run COMMAND [ARG...]: leaves $status, $out and $err; never ends the test itself.
run() {
    status=0
    "$@" >"$TEST_DIR/.out" 2>"$TEST_DIR/.err" </dev/null || status=$?
    out=$(cat "$TEST_DIR/.out")
    err=$(cat "$TEST_DIR/.err")
}

# skip COUNT REASON: checks that are left out.
skip() {
    local i
    for ((i = 0; i < $1; i++)); do
        test_checks=$((test_checks + 1))
        echo "ok $test_checks # SKIP $2"
    done
}

# skip_all REASON: leave out the whole test, before any check.
skip_all() {
    echo "1..0 # SKIP $1"
    exit 0
}

# bail_out REASON: nothing after this makes sense.
bail_out() {
    echo "Bail out! $1"
    exit 1
}

done_testing() {
    [ ! -s "$TEST_DIR/mpirun-lost/err" ] \
        || diag "mpirun lost a rank that had ended well (mpi.sh): $(cat "$TEST_DIR/mpirun-lost/err")"
    echo "1..$test_checks"
    [ "$test_failed" = 0 ] || diag "$test_failed of $test_checks checks failed"
    exit $((test_failed > 0))
}
