#!/bin/bash
# Faults that are planted in the kernels of attention, one at a time (tests/cuda/plant): the comparison
# with the CPU's kernels finds each.  Without MG_LONG: each stands in the kernels.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"

run "$MG_SRCDIR/tests/cuda/plant" "$MG_SRCDIR"
is "$status $err" "0 " "each text of the table is once in its file"
ok "[ $(wc -l <<<"$out") -ge 25 ]" "(with faults)"
table=$out
if ! long; then
    done_testing
    exit
fi
programs=$MG_BUILDDIR/tests/cuda
if ! [ -x "$programs/twins-planted" ]; then
    skip 1 "make check-cuda-long builds twins-planted with CUDA, which is ${MG_CUDA:-off}"
    done_testing
    exit
fi

# found PROGRAM NUMBER ORDER: does it fail with that fault?  Ended at the first failed check.
found() {
    local status
    MG_PLANTED=$2 MG_CUDA_THREADS=$3 timeout 900 stdbuf -oL "$programs/$1" attention 2>errors \
        | grep -m 1 '^not ok' >first
    status=${PIPESTATUS[0]}
    [ -s first ] || [ -s errors ] || [ "$status" != 0 ]
}

# shows NUMBER: where it is found
shows() {
    local order
    for order in 0 1 7; do
        ! found twins-planted "$1" $order || { echo plain; return; }
    done
    ! found twins-planted-watch "$1" 0 || { echo watched; return; }
    echo same
}

is "$(shows 0)" same "without a fault"
while read -r number name where; do
    is "$(shows "$number")" "$where" "$name: $where" || diag "$(cat errors first)"
done <<<"$table"
done_testing
