#!/bin/bash
# How compute threads wait for each other: megatron train chooses where the user has not, and
# starts itself anew for it, once; other commands, and what the user has set, stay as they are.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"

unset OMP_NUM_THREADS OMP_WAIT_POLICY GOMP_SPINCOUNT
export OMP_DISPLAY_ENV=verbose
megatron train --bogus 2>&1 | grep -q GOMP_SPINCOUNT \
    || skip_all "the OpenMP that is used is not GNU's, or there is none"

# counts COMMAND...: the spin counts that libgomp tells, one for each start of the program
counts() {
    "$@" 2>&1 | sed -n "s/.*GOMP_SPINCOUNT = '\(.*\)'/\1/p" | paste -sd' '
}
default=$(counts megatron plan)
is "$(wc -w <<<"$default")" 1 "a command that does not compute starts once"
ok "[ '$default' != 1000 ]" "libgomp's own count is another: $default"
is "$(counts megatron train --bogus)" "$default 1000" "megatron train starts anew, and looks briefly"
run megatron train --bogus "two words" ''
is "$status" 2 "with the same exit status"
like "$err" 'unknown argument --bogus' "and arguments"
is "$(counts env GOMP_SPINCOUNT=77 megatron train --bogus)" 77 "a GOMP_SPINCOUNT of the user stays"
is "$(counts env OMP_WAIT_POLICY=passive megatron train --bogus)" 0 "OMP_WAIT_POLICY=passive too"
is "$(counts env OMP_WAIT_POLICY=active megatron train --bogus | wc -w)" 1 "and active"
is "$(counts env OMP_NUM_THREADS=1 megatron train --bogus)" "$default" "one thread waits for nobody"
is "$(OMP_NUM_THREADS=3 counts megatron train --bogus)" "$default 1000" "three do"

# The process stays the one that was started.
unset OMP_DISPLAY_ENV
megatron train --bogus 2>/dev/null &
wait $!
is $? 2 "its parent gets its status"
if [ -r /proc/self/comm ]; then
    run megatron train --args-file /proc/self/comm
    like "$err" '/comm:1: "megatron" is not' "and it keeps its name"
else
    skip 1 "there is no /proc/self/comm"
fi
done_testing
