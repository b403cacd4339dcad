#!/bin/bash
# Long: the unit tests once more, built with AddressSanitizer and
# UndefinedBehaviorSanitizer; and a run that saves while it trains.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/train.sh"

[ -n "${MG_LONG:-}" ] || skip_all "a long test, on with MG_LONG=1"
[ ! -f "$MG_SRCDIR/config.status" ] || skip_all "the source tree itself is configured"
unset MAKEFLAGS MFLAGS MAKELEVEL
give_way

mkdir build
cd build || bail_out "no build directory"
run "$MG_SRCDIR/configure" -q --enable-sanitizers CFLAGS="-O1 -g"
[ "$status" = 0 ] || { diag "$err"; skip_all "the compiler has no sanitizers"; }
run make -s -j2
is "$status" 0 "the build works" || diag "$err"

# Every unit test that the build under test has: what make check made there.
tests=$(cd "$MG_BUILDDIR" && find tests/unit tests/tap -name '*.t' -type f -perm -u=x | sort)
ok "[ \$(wc -w <<<'$tests') -ge 5 ]" "unit tests are found"
run make -s -k -j2 check TESTS="${tests//$'\n'/ }"
for name in $tests; do
    result=$(sed -n 's/^:global-test-result: //p' "${name%.t}.trs" 2>&1)
    ok "[ '$result' = PASS ] || [ '$result' = SKIP ]" "$name" \
        || diag "$(grep -E -A 30 '^not ok|runtime error|ERROR: |^Bail' "${name%.t}.log" \
            | head -n 60)"
done

make_text text.txt 20
run ./megatron data tokenize --input text.txt --output-prefix text --append-eod
is "$status$err" 0 "text is tokenized"
for type in "" --bf16 "--cuda-graph-impl local" "--cuda-graph-impl full_iteration"; do
    # shellcheck disable=SC2086
    run env MEGATRON_MODULE_DIR="$PWD/.libs" ./megatron train --num-layers 2 --hidden-size 16 \
        --num-attention-heads 2 --seq-length 8 --tokenizer-type ByteLevel \
        --data-path text_text_document --micro-batch-size 2 --global-batch-size 4 --lr 1e-3 \
        --train-iters 12 --save "saved${type// /}" --save-interval 2 --async-save $type
    is "$status$err" 0 "a run that saves while it trains $type" || diag "$out"
done
done_testing
