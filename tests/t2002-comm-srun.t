#!/bin/bash
# Communicators under srun on four virtual nodes: every call, places of ranks under every
# distribution, and what is not right at the start.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/mpi.sh"
. "$MG_SRCDIR/tests/lib/slurm.sh"

mpi_available || skip_all "no MPI, or the modules for it were not built"
ranks=$MG_BUILDDIR/tests/unit/comm/ranks.t
ends=$MG_BUILDDIR/tests/unit/job/ends.t
for program in "$ranks" "$ends"; do
    [ -x "$program" ] || skip_all "$program is not built (make check builds it)"
done
slurm_start 4
step=(srun -Q --mpi=pmix -N4 --ntasks-per-node=2)

# ---- calls
run "${step[@]}" "$ranks"
is "$status" 0 "8 ranks on 4 nodes: every call is right" \
    || diag "$(grep -A 2 '^not ok' <<<"$out")" "$err"
is "$(grep -c '^not ok' <<<"$out")" 0 "no check failed"
ok "[ $(grep -c '^ok' <<<"$out") -gt 180 ]" "all checks were made"
is "$err" "" "nothing else is printed"
run srun -Q --mpi=pmix -N1 -n3 "$ranks"
is "$status:$(grep -c '^not ok' <<<"$out"):$err" "0:0:" "3 ranks on one node"
run srun -Q --mpi=pmix -n1 "$ranks"
is "$status:$(grep -c '^not ok' <<<"$out"):$err" "0:0:" "1 rank"
if [ -e "$MG_BUILDDIR/.libs/comm_ucx.so" ]; then
    mkdir modules
    ln -s "$MG_BUILDDIR/.libs"/{comm_ucx,boot_pmix}.so modules
    run env MEGATRON_MODULE_DIR="$PWD/modules" "${step[@]}" "$ranks"
    is "$status:$(grep -c '^not ok' <<<"$out"):$err" "0:0:" "8 ranks over UCX, MPI out of reach"
    ok "[ $(grep -c '^ok' <<<"$out") -gt 180 ]" "all checks were made"
else
    skip 2 "no UCX"
fi
cycles=1
! long || cycles=3
for ((i = 1; i <= cycles; i++)); do
    run "${step[@]}" "$ends" cycle
    is "$status:$out:$err" "0::" "a job begins and ends without a word ($i)"
done

for shape in 0 1; do
    run env SHAPE=$shape "${step[@]}" -m cyclic "$ends" groups
    is "$status:$(grep -c 'kinds of groups' <<<"$out"):$err" "0:8:" \
        "every kind of group has its members in order (shape $shape)"
done

# ---- places: ranks are node-major whatever the distribution
want=$(for r in 0 1 2 3 4 5 6 7; do
    echo "rank $r node $((r / 2)) of 4 local $((r % 2)) of 2 host n$((r / 2))"
done)
for how in block cyclic plane=2; do
    run "${step[@]}" -m "$how" "$ends" place
    is "$(sed 's/^task [0-9]* //' <<<"$out" | sort)" "$want" "$how: ranks are node-major"
    [ $how != cyclic ] || like "$out" 'task 4 rank 1 node 0' "cyclic: task 4 is rank 1"
done
# n2 n0 n0 n3 n2: the node list's order counts
printf 'n2\nn0\nn0\nn3\nn2\n' >hosts
run env SLURM_HOSTFILE=hosts srun -Q --mpi=pmix -n5 -m arbitrary "$ends" place
is "$(sed 's/.*host //; s/^/ /' <<<"$(sort -k4n <<<"$out")" | tr -d '\n')" " n0 n0 n2 n2 n3" \
    "arbitrary: ranks are node-major" || diag "$out" "$err"
run srun -Q --mpi=pmix -N3 -n8 "$ends" place
is "$(sort -k4n <<<"$out" | awk '{ print $6, $12 }' | uniq -c | awk '{ print $1 == $3 }' \
    | sort -u)" 1 "uneven nodes: every rank knows how many are on its node" || diag "$out"

# ---- what is not right at the start
run srun -Q --mpi=none -N2 -n2 "$ends" cycle
is "$status" 3 "two tasks without PMIx are refused"
like "$err" 'one of 2 tasks, but srun offers no PMIx; start them with srun --mpi=pmix' \
    "naming the option"
run srun -Q --mpi=none -n1 "$ends" cycle
is "$status:$err" "0:" "one task without PMIx is fine"
run salloc -Q -n4 srun -Q --mpi=none -n1 "$ends" cycle
is "$status:$err" "0:" "also inside a larger job"
printf '#!/bin/sh\n"%s" cycle && echo fine\n' "$ends" >job
run sbatch -Q --wait -n4 -o job.out job
is "$status:$(cat job.out)" "0:fine" "and in a batch script"
run "${step[@]}" "$ends" fingerprint
is "$status" 3 "a rank with another configuration ends the step"
like "$err" 'rank 1: it is configured differently from rank 0' "and is named"
run srun -Q --mpi=pmix -n2 sh -c 'MEGATRON_RANK=$((1 - SLURM_PROCID)) \
    MEGATRON_WORLD_SIZE=2 exec "$1" cycle' - "$ends"
ok "[ $status != 0 ]" "a place that contradicts the plugin's is refused"
like "$err" 'task 0 is rank 0 of 2 by PMIx, but MEGATRON_RANK says 1' "naming both"

ok "slurm_stop" "the cluster ends cleanly"
done_testing
