#!/bin/bash
# The double of cuBLASLt: its products, and what it refuses.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"

programs=$MG_BUILDDIR/tests/cuda
[ -x "$programs/cublaslt-check" ] || skip_all "CUDA is ${MG_CUDA:-off}"

for order in last first $((RANDOM + 1)); do
    run env MG_CUDA_ORDER="$order" "$programs/cublaslt-check"
    is "$status $(grep '^not ok' <<<"$out")" "0 " "order $order"
    ok "[ $(grep -c '^ok' <<<"$out") -ge 60 ]" "(with checks)"
done

# Two streams that share a workspace.
found=0
for seed in 1 2 3 4 5; do
    run env MG_CUDA_ORDER=$seed "$programs/cublaslt-check" apart
    is "$status" 0 "workspaces of two streams, seed $seed"
    MG_CUDA_ORDER=$seed "$programs/cublaslt-check" shared || found=$((found + 1))
done
ok "[ $found -ge 1 ]" "a workspace that two streams share is found ($found of 5 seeds)"
done_testing
