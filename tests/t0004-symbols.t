#!/bin/bash
# What the built libraries show to the outside, and how the plugin is hardened.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"

command -v nm >/dev/null || skip_all "nm is not installed"

# symbols FILE: what it defines for others.
symbols() {
    nm -D --defined-only "$1" | awk '{ print $NF }' | sed 's/@.*//'
}

lib=$MG_BUILDDIR/.libs/libmegatron.so
ok "[ -f '$lib' ]" "libmegatron.so is built"
is "$(symbols "$lib" | grep -v '^mg_')" "" "it shows mg_* only"
like "$(symbols "$lib")" '(^|[[:space:]])mg_error_set($|[[:space:]])' "and these"
is "$(ldd -r "$lib" 2>&1 | grep 'undefined symbol')" "" "it misses nothing"

# An abort function's last resort, _exit, is not among them.
archive=$MG_BUILDDIR/.libs/libmegatron-internal.a
is "$(nm -A "$archive" 2>/dev/null | sed 's/^[^:]*://' | grep -E \
    ' U (std(out|err)|(__)?v?printf(_chk)?|puts|putchar|perror|v?(warn|err)x?|exit|abort)$' \
    | sort -u)" "" "the library neither prints nor ends the process"
like "$(nm "$archive" 2>/dev/null)" ' U snprintf' "(and its symbols can be read)"

for name in comm_mpi boot_pmix; do
    module=$MG_BUILDDIR/.libs/$name.so
    if [ -f "$module" ]; then
        is "$(symbols "$module" | grep -v '^mg_module')" "" "$name.so shows mg_module* only"
        ok "[ -n \"\$(symbols '$module')\" ]" "and that"
    else
        skip 2 "$name.so is not part of this build"
    fi
done

plugin=$MG_BUILDDIR/plugin/.libs/megatron.so
if [ -f "$plugin" ]; then
    is "$(symbols "$plugin" \
        | grep -vxE 'plugin_(name|type|version)|spank_plugin.*|slurm_spank_.*')" "" \
        "the plugin shows SPANK's symbols only"
    is "$(symbols "$plugin" | grep -xE 'plugin_(name|type|version)|slurm_spank_init' \
        | sort | tr '\n' ' ')" "plugin_name plugin_type plugin_version slurm_spank_init " \
        "and these"
    is "$(nm -D -u "$plugin" | awk '$1 == "U" { print $2 }' \
        | grep -vE '@|^slurm_|^spank_')" "" "it wants Slurm's symbols and libc's only"
    is "$(readelf -dW "$plugin" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p' \
        | grep -vE '^(libc|libdl|libgcc_s|ld-linux.*)\.so')" "" "it links nothing but libc"
    like "$(readelf -dW "$plugin")" 'BIND_NOW|NOW' "all symbols are bound at load"
    like "$(readelf -lW "$plugin")" 'GNU_RELRO' "relocations become read-only"
    like "$(readelf -lW "$plugin" | grep GNU_STACK)" ' RW ' "the stack is not executable"
    is "$(readelf -dW "$plugin" | grep -E 'RPATH|RUNPATH')" "" "no path of a build is in it"
else
    skip 8 "the plugin is not part of this build"
fi
done_testing
