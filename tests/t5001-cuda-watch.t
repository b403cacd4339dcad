#!/bin/bash
# The instrumented build of device code: what it claims, and each planted fault is found.  t5006 has the
# kernels.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"

programs=$MG_BUILDDIR/tests/cuda
[ -x "$programs/faults" ] || skip_all "CUDA is ${MG_CUDA:-off}"

run "$programs/conform-watch"
is "$status $(grep '^not ok\|^Bail' <<<"$out")" "0 " "conform-watch"
is "$err" "" "no race, no access out of bounds"

# Without instrumentation, in any order of threads.
for order in 0 1 $((RANDOM + 2)); do
    run env MG_CUDA_THREADS="$order" "$programs/faults"
    is "$status $(grep '^missed\|^wrong' <<<"$out")" "0 " "faults, threads in order $order"
    ok "[ $(grep -c '^found' <<<"$out") -ge 45 ]" "(with faults)"
done
for order in 0 1 $((RANDOM + 2)); do
    run env MG_CUDA_THREADS="$order" "$programs/faults-watch"
    is "$status $(grep '^missed\|^unseen\|^wrong' <<<"$out")" "0 " "watched, threads in order $order"
    is "$(grep -c '^found' <<<"$out")" 53 "all are found"
done

# The reason is told.
run "$programs/faults-watch"
like "$err" "REDUCE|reduce of .*faults.cu|f->kernel of [^ ]*faults.cu:[0-9]*: block \(0,0,0\) thread" \
    "a line names the kernel's launch, the block and the thread"
like "$err" "race: a write of 0x[0-9a-f]* and an earlier read by thread [0-9]* of the same block" \
    "a race"
like "$err" "4 bytes at 0x[0-9a-f]*, which is 2048 bytes into 2048 bytes" "a bound"
like "$err" "__syncthreads of [^ ]*faults.cu:[0-9]* meets __syncthreads of" "barriers that meet"
like "$err" "threads wait for each other: .*in __syncthreads of" "a barrier that threads miss"
like "$err" "lane 31 has ended|in __any_sync of" "a lane that is missing"
done_testing
