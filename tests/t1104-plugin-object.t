#!/bin/bash
# What the plugin's object code can do in a daemon of root's: which functions it calls, and
# how it is hardened.  (Which symbols it shows: t0004.)
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"

plugin=$MG_BUILDDIR/plugin/.libs/megatron.so
[ -f "$plugin" ] || skip_all "the plugin is not part of this build"
command -v nm >/dev/null || skip_all "nm is not installed"
command -v readelf >/dev/null || skip_all "readelf is not installed"

# wants FILE: functions that it calls and does not have.
wants() {
    nm -u "$1" | awk '{ print $NF }' | sed 's/@.*//' | sort -u
}

# ---- which functions ---------------------------------------------------------------

never='system|popen|exec[lv].*|posix_spawn.*|fork|vfork|dlopen|dlmopen|set(e|re|res)?[ug]id'
never+='|chmod|chown|unlink|rename|mkdir|mkstemp|tmpfile|socket|connect|gets|strcat|sprintf'
never+='|vsprintf|alloca|putenv|environ|slurm_setenvpf|spank_prepend_task_argv'
is "$(wants "$plugin" | grep -xE "$never")" "" "starts, loads, makes and removes nothing"
files='fopen|fdopen|open|openat|open64|fopen64|stat|lstat|access|opendir|readlink|mmap'
for object in conf contract options special step spank_megatron; do
    file=$MG_BUILDDIR/plugin/.libs/megatron_la-$object.o
    ok "[ -f '$file' ]" "$object.o is there"
    is "$(wants "$file" | grep -xE "$files")" "" "and opens no file: it runs in slurmstepd"
done
is "$(wants "$MG_BUILDDIR/plugin/.libs/megatron_la-submit.o" | grep -xE "$files")" "" \
    "submit.o opens none either"
is "$(nm -D --defined-only "$plugin" | awk '{ print $NF }' | grep -xE '_?init|_?fini|opt')" "" \
    "no symbol that Slurm's loader would call, or take for its own"

# ---- hardening ---------------------------------------------------------------------

like "$(wants "$plugin" | tr '\n' ' ')" '__stack_chk_fail' "stacks are guarded"
like "$(wants "$plugin" | tr '\n' ' ')" '__(v?snprintf|strcpy|memcpy)_chk' \
    "copies into fixed buffers are checked"
is "$(readelf -dW "$plugin" | grep TEXTREL)" "" "no relocation in code"
is "$(readelf -lW "$plugin" | grep -E ' (RWE|RW E) ')" "" "nothing is writable and executable"
is "$(readelf -SW "$plugin" | grep -E ' (asan|ubsan)')$(wants "$plugin" \
    | grep -E '^__(asan|ubsan|tsan)')" "" "no sanitizer, whose runtime srun does not have"
done_testing
