#!/bin/bash
# Dense and expert parameters over grids of tensor-, expert-, pipeline- and data-parallel ranks:
# sums, norms and updates as on one rank, in every type, with and without shards.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/mpi.sh"

mpi_available || skip_all "no MPI, or the modules for it were not built"
ranks=$MG_BUILDDIR/tests/unit/optim/ranks.t
[ -x "$ranks" ] || skip_all "$ranks is not built (make check builds it)"

# ranks, then sizes of tp, ep, etp and pp, and instances
while read -r n tp ep etp pp instances; do
    what="$n ranks: tp $tp ep $ep etp $etp pp $pp, $instances instances"
    run mpi_run "$n" "$ranks" "$tp" "$ep" "$etp" "$pp" "$instances"
    is "$status" 0 "$what" || diag "$(grep '^not ok' <<<"$out" | head -n 5)" "$err"
    is "$(grep -c '^ok' <<<"$out")" 200 "$what: all checks were made"
done <<'EOF'
4 2 2 1 1 1
4 2 1 2 1 1
4 4 1 2 1 1
4 2 1 4 1 1
4 1 2 1 1 2
4 1 4 1 1 1
4 4 4 1 1 1
8 2 2 1 1 2
8 2 2 1 2 1
8 4 1 2 1 1
EOF
# ---- routers: ranks, and those that have parts of the same sequences
for size in "2 1" "4 1" "4 2" "3 3"; do
    read -r n tp <<<"$size"
    run mpi_run "$n" "$MG_BUILDDIR/tests/unit/ops/router.t" "$tp"
    is "$status:$(grep -c '^ok' <<<"$out")" 0:11 "routers of $n ranks, tp $tp" \
        || diag "$(grep '^not ok' <<<"$out" | head -n 5)" "$err"
done

# ---- waits of the host: 2 a step, and one for each of 2 layers with experts and 2 microbatches
waits=$MG_BUILDDIR/tests/unit/train/waits.t
while read -r each args; do
    read -ra args <<<"$args"
    few=$(mpi_run 2 "$waits" 3 "${args[@]}") many=$(mpi_run 2 "$waits" 6 "${args[@]}")
    is $((${many% *} - ${few% *})) $((3 * each)) "experts, ${args[*]}: $each waits a step"
done <<'EOF'
6 --moe-token-dispatcher-type=alltoall
6 --moe-token-dispatcher-type=allgather
2 --moe-token-dispatcher-type=alltoall --moe-expert-capacity-factor=1 --moe-pad-expert-input-to-capacity
EOF

# ---- models with experts: a gradient of ones
norm=$MG_BUILDDIR/tests/unit/model/moe_norm.t
while read -r n tp ep etp cp; do
    what="$n ranks: tp $tp ep $ep etp $etp cp $cp, a model"
    run mpi_run "$n" "$norm" "$tp" "$ep" "$etp" "$cp"
    is "$status" 0 "$what: $(sed -n 's/.*: the norm is \(.*\), .*/\1/p' <<<"$out" | head -n 1)" \
        || diag "$(grep '^not ok' <<<"$out" | head -n 5)" "$err"
    is "$(grep -c '^ok' <<<"$out")" 6 "$what: all checks were made"
done <<'EOF'
4 2 2 1 1
8 2 2 1 1
4 2 1 2 1
8 2 1 2 2
4 4 1 2 1
8 4 1 2 1
4 2 1 4 1
8 2 1 4 1
4 4 4 1 1
8 4 4 1 2
8 1 8 1 1
EOF

run mpi_run 4 "$ranks" 1 4 1 1 2
is "$status" 1 "instances that the experts' ranks cannot form"
like "$err" "num-distributed-optimizer-instances 2 does not divide the 1 expert-data-parallel ranks" \
    "say why"
done_testing
