#!/bin/bash
# A model with caches on tensor-parallel ranks, also with fewer groups of heads than ranks: rows of
# several sequences have the logits of a pass over the whole sequence.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/mpi.sh"

mpi_available || skip_all "no MPI, or the modules for it were not built"
caches=$MG_BUILDDIR/tests/unit/model/cache.t
[ -x "$caches" ] || skip_all "$caches is not built (make check builds it)"

for tp in 2 4; do
    run mpi_run "$tp" "$caches" "$tp"
    is "$status:$(grep -c '^ok' <<<"$out")" 0:64 "tp $tp" \
        || diag "$(grep '^not ok' <<<"$out" | head -n 5)" "$err"
done

done_testing
