#!/bin/bash
# A program that joins a job through the public interface: its ranks shake hands and watch each
# other as those of megatron train do.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/mpi.sh"

command -v cc >/dev/null || skip_all "cc is not installed"
! ldd "$MG_BUILDDIR/.libs/libmegatron.so" | grep -q 'lib[a-z]*san' \
    || skip_all "the library is built with sanitizers"
mpi_available || skip_all "no MPI"

run cc -Wall -Werror -o job "$MG_SRCDIR/tests/lib/library-job.c" \
    -I"$MG_SRCDIR/libcore/include" -I"$MG_BUILDDIR/libcore/include" \
    -L"$MG_BUILDDIR/.libs" -lmegatron
is "$status:$err" "0:" "the program is built"
export LD_LIBRARY_PATH=$MG_BUILDDIR/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}

# ---- the handshake
run mpi_run 4 ./job join
is "$status:$out:$err" "0::" "ranks that agree join, and leave without a word"

# all_say COUNT TEXT WHAT: so many ranks fail with this text, and the launcher has no complaint.
all_say() {
    is "$(grep -c '^refused: ' <<<"$out") $(sort -u <<<"$out")" "$1 refused: $2" "$3" \
        || diag "$err"
    is "$status" 0 "and all of them leave in order" || diag "$err"
}
differs="it is configured differently from rank 0: both must have the same arguments, files and \
environment"
run mpi_run_each 2 ./job join : 1 env FINGERPRINT=7 ./job join : 1 ./job join
all_say 4 "rank 2: $differs" "another fingerprint of the program's fails every rank"
run mpi_run_each 1 ./job join : 3 env MEGATRON_TP_SIZE=2 ./job join
all_say 4 "rank 1: $differs" "so does another geometry"
run mpi_run_each 3 ./job join : 1 env MEGATRON_TP_SIZE=two ./job join
all_say 4 'rank 3: MEGATRON_TP_SIZE: "two" is not a whole number, want 1 to 16777216' \
    "and one that cannot be read"
run mpi_run 4 env MEGATRON_TP_SIZE=3 ./job join
all_say 4 "4 tasks cannot hold tp 3 x cp 1 x pp 1 = 3; use -n 3 or -n 6" \
    "a geometry that breaks a rule on all ranks names none of them"

# ---- the watch

# reported MODE TEXT: one report, on rank 1, with what the others wait in.
reported() {
    ok "[ $status != 0 ]" "$1: the job fails: $status"
    is "$(grep -hc '^megatron: ' <<<"$said")" 1 "$1: one report" || diag "$said" "$err"
    like "$said" "^megatron: rank 1 (on [^ ]* )?$2" "$1: rank 1 is named"
    like "$said" "  ranks? [-0-9,]+: in the program, waiting in all-reduce #[0-9]+ on world, for rank 1" \
        "$1: and what the others wait in"
}
for mode in kill exit; do
    run mpi_run 4 ./job $mode
    said=$(sed -n '/^megatron: /,$p' <<<"$err")
    reported $mode "died"
done
seconds=$(apart_seconds 3000) # that ranks may be apart when they start
run mpi_run 4 ./job stop $seconds report
said=$(cat report.*)
reported stop "does not answer: it is stopped, or its node is lost"
ok "! grep -q '^megatron: ' <<<'${err//\'/}'" "stop: the program's own file takes the report"
run mpi_run 4 ./job end
is "$status:$out:$err" "0::" "ranks that leave in order are not reported"
done_testing
