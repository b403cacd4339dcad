#!/bin/bash
# The tests of kernels take any backend: on the guarded device, operands are in memory that the host
# cannot touch.  The kit of these tests copies them there and back.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
seed_draws

tests=$MG_BUILDDIR/tests/unit/kernels
# Those that look at the CPU's kernels only are not among them.
quick=(act adamw attention_logits cast copy embedding expert_act expert_sort fill golden golden_moe
       grads norm reduce rope router router_balance router_loss xent)
slow=(adamw_types attention dropout expert_gemm gemm gemm_double gemm_large half router_many row state)
long && quick+=("${slow[@]}")
some 8 "${quick[@]}"

devices=(guarded guarded-pages)
for name in "${some[@]}"; do
    run env MG_TEST_DEVICE="${devices[0]}" "$tests/$name.t"
    is "$status $(grep '^not ok\|^Bail' <<<"$out")" "0 " "$name on the device ${devices[0]}"
    like "$out" "ok 1|SKIP" "(with checks)"
    devices=("${devices[1]}" "${devices[0]}")
done
run env MG_TEST_DEVICE=abacus "$tests/fill.t"
ok "[ $status != 0 ]" "a device that is not there"
like "$out$err" 'there is no device "abacus"' "is told"
done_testing
