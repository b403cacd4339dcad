#!/bin/bash
# A model with caches on tensor-parallel ranks, also with fewer groups of heads than ranks: rows of
# several sequences have the logits of a pass over the whole sequence.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/ranks.sh"

ranks_need
caches=$MG_BUILDDIR/tests/unit/model/cache.t
[ -x "$caches" ] || skip_all "$caches is not built (make check builds it)"

for tp in 2 4; do
    run ranks_run "$tp" "$caches" "$tp"
    is "$status:$(grep -c '^ok' <<<"$out")" 0:180 "tp $tp" \
        || diag "$(grep '^not ok' <<<"$out" | head -n 5)" "$err"
done

done_testing
