#!/bin/bash
# Long: the unit tests once more, built with AddressSanitizer and
# UndefinedBehaviorSanitizer.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"

[ -n "${MG_LONG:-}" ] || skip_all "a long test, on with MG_LONG=1"
[ ! -f "$MG_SRCDIR/config.status" ] || skip_all "the source tree itself is configured"
unset MAKEFLAGS MFLAGS MAKELEVEL

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
done_testing
