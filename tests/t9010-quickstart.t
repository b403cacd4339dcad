#!/bin/bash
# contrib/quickstart in short: it trains, draws a curve that is well formed and falls, and
# leaves nothing, also when it is interrupted; --keep leaves what it says, and no more.
# MG_LONG=1: one run without --keep, one with it, and all interrupts; else one run, and an interrupt
# that is drawn.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/mpi.sh"
. "$MG_SRCDIR/tests/lib/svg.sh"

mpi_available || skip_all "no MPI"
[ -e "$MG_BUILDDIR/plugin/.libs/megatron.so" ] || skip_all "the plugin is not built"
for tool in slurmctld slurmd srun munged; do
    PATH=$PATH:/usr/sbin:/sbin command -v $tool >/dev/null \
        || skip_all "$tool is not installed"
done

quickstart=("$MG_SRCDIR/contrib/quickstart" --build-dir "$MG_BUILDDIR" --no-install)
# A directory of our own, with a name short enough for sockets.
base=${TMPDIR:-/tmp}
[ ${#base} -le 24 ] || base=/tmp
TMPDIR=$(mktemp -d "$base/mgq.XXXXXX") || bail_out "no directory"
export TMPDIR
at_exit 'rmdir "$TMPDIR"'
# Paragraphs of a language of few words.
awk 'BEGIN { srand (7); split ("the ship sails over a green sea and no land is in sight", w)
             for (i = 0; i < 3000; i++) {
                 for (k = 0; k < 12; k++) printf "%s ", w[int (rand () * 13) + 1]
                 print i % 3 ? "" : "\n" } }' >text.txt

# leftovers: live processes that name our TMPDIR, and files in it.
leftovers() {
    local p text
    for p in /proc/[0-9]*; do
        [ "${p#/proc/}" != "$BASHPID" ] || continue
        text=$(tr '\0' ' ' 2>/dev/null <"$p/cmdline"; tr '\0' ' ' 2>/dev/null <"$p/environ"
               readlink "$p/cwd" "$p"/fd/* 2>/dev/null)
        [[ $text == *"$TMPDIR/mgquick"* ]] && echo "${p#/proc/} $(head -c 100 "$p/comm")"
    done 2>/dev/null
    ls -A "$TMPDIR"
}

at_exit 'for d in "$TMPDIR"/mgquick.*; do
             "$MG_SRCDIR/contrib/cluster/slurm-cluster" stop "$d" 2>/dev/null
         done'

# ---- a build for another Slurm than the one in PATH is not used
mkdir other
: >other/Makefile
echo '#define MG_SLURM_VERSION "19.05.8"' >other/config.h
run "$MG_SRCDIR/contrib/quickstart" --build-dir other --no-install
is "$status" 1 "a build for another release of Slurm is refused"
like "$err" "^quickstart: $PWD/other is configured for Slurm 19.05.8, and [^ ]*/slurmd is of \
[2-9][0-9]\.[0-9.]+; give another --build-dir$" "with both releases"

# ---- the recipe: the loss of a small text falls without a jump.  A run of one rank, with a
# fixed number of iterations, is the same everywhere.  From one iteration to the next the
# loss of other samples is higher by about 0.1; a jump was one of 2.
eval "$(sed -n '/^model=(/,/)$/p; /^recipe=(/,/)$/p' "$MG_SRCDIR/contrib/quickstart")"
run megatron data tokenize --input "$MG_SRCDIR/README.md" --output-prefix small --append-eod
is "$status" 0 "the README is a text"
# shellcheck disable=SC2154
run env OMP_NUM_THREADS=1 megatron train "${model[@]}" "${recipe[@]}" --train-iters 30 \
    --data-path small_text_document --split 95,5,0 --eval-iters 0 --metrics-file small.jsonl
is "$status" 0 "the recipe trains on it" || diag "$err"
losses=$(sed -n 's/.*"lm loss": \([0-9.]*\).*/\1/p' small.jsonl)
is "$(wc -l <<<"$losses")" 30 "a loss for each iteration"
is "$(awk 'NR > 1 && $1 > last + 0.4 { print NR ": " last " to " $1 } { last = $1 }
           END { if (last > 4) print "ends at " last }' <<<"$losses")" "" \
    "which falls and never rises by more than 0.4"

keep=()
long || keep=(--keep)
# ---- from the start to the curve, in as many iterations as it takes to learn something; beside
# other tests they take longer
run "${quickstart[@]}" --iterations 100 --text text.txt "${keep[@]}"
kept=$out
stop=$(sed -n 's/^ *\(.*slurm-cluster stop .*\)$/\1/p' <<<"$kept")
is "$status" 0 "quickstart succeeds" || { diag "$out"; diag "$err"; }
! long || is "$(leftovers)" "" "no process and no file is left"
ok "[ -s quickstart-loss.svg ]" "the curve is where one stands"
like "$out" "curve is in"$'\n'" *$TEST_DIR/quickstart-loss.svg" "and the text says so"
like "$out" 'srun -N4 --ntasks-per-node=2 --megatron-tp=2 --megatron-pp=2 ' "the srun line is told"
like "$out" '8 ranks = tp 2 x pp 2 x dp 2' "eight ranks trained"
ok "[ $(grep -c '\] iteration ' <<<"$out") -ge 10 ]" "iterations are shown"
read -r first last <<<"$(sed -n 's/^The loss fell from \([0-9.]*\) to \([0-9.]*\);.*/\1 \2/p' \
    <<<"$out")"
ok "awk -v a='$first' -v b='$last' 'BEGIN { exit !(a > 5 && a < 6.5 && b > 0 && b < 3.2) }'" \
    "the loss fell from $first to $last"
ok "svg_is_well_formed quickstart-loss.svg" "the SVG is well formed"
is "$(grep -c '<path ' quickstart-loss.svg)" 3 "an axis and two curves"

# ---- --keep
if long; then
    run "${quickstart[@]}" --seconds 1 --text text.txt --svg kept.svg --keep
    is "$status" 0 "--keep succeeds" || { diag "$out"; diag "$err"; }
    like "$out" "training for 30"$'\n' "a second is short: it trains for 30 iterations"
    kept=$out
    stop=$(sed -n 's/^ *\(.*slurm-cluster stop .*\)$/\1/p' <<<"$kept")
fi
env=$(sed -n 's/^ *\. \(.*\/env\)$/\1/p' <<<"$kept")
run bash -c ". '$env' && srun -Q -N4 --megatron-tp=2 sh -c 'echo \$MEGATRON_DP_SIZE'"
is "$out" $'2\n2\n2\n2' "its cluster is used as it says"
run bash -c "$stop"
is "$status" 0 "and stopped as it says"
is "$(leftovers)" "" "no process and no file is left"

# ---- it is interrupted: while the cluster starts, while it trains
seed_draws
some 1 "INT slurmctld.pid" "TERM slurmctld.pid" "INT quickstart/train.jsonl" \
    "TERM quickstart/train.jsonl"
for cut in "${some[@]}"; do
    read -r signal file <<<"$cut"
    env --default-signal=INT,QUIT "${quickstart[@]}" --seconds 600 --text text.txt >cut.out 2>cut.err &
    pid=$!
    wait_until "ls '$TMPDIR'/mgquick.*/$file" $pid
    ok "kill -$signal $pid" "SIG$signal reaches it when there is $file"
    rc=0
    wait $pid || rc=$?
    is "$rc" $((128 + $(kill -l "$signal"))) "and ends it" || diag "$(cat cut.out cut.err)"
    is "$(leftovers)" "" "no process and no file is left"
done

# ---- what it refuses
for arguments in "--seconds 0" "--seconds x" "--iterations 29" "--iterations 5001" "--iterations x" \
        "--seconds 9 --iterations 99" "--text /nonexistent" "--svg /nonexistent/a.svg"; do
    # shellcheck disable=SC2086
    run "${quickstart[@]}" $arguments
    is "$status:$(wc -l <<<"$err")" 1:1 "$arguments is refused in a line: $err"
done
done_testing
