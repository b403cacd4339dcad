#!/bin/bash
# The lists of contrib/debian: each file that make installs is in exactly one package, and each
# line of a list names a file that is installed, or a module that this build may lack.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"

debian=$MG_SRCDIR/contrib/debian
dest=$TEST_DIR/dest
unset MAKEFLAGS MFLAGS MAKELEVEL
run make -s -C "$MG_BUILDDIR" install DESTDIR="$dest"
is "$status" 0 "make install with a DESTDIR" || diag "$err"
prefix=$(sed -n 's/^prefix = //p' "$MG_BUILDDIR/Makefile")
(cd "$dest$prefix" && find . ! -type d ! -name '*.la' ! -name '*.a' | sed 's|^\./||' | sort) >installed
ok "[ $(wc -l <installed) -gt 100 ]" "$(wc -l <installed) files are installed"

# check_lists FOLDER: what is wrong with its lists, a line each.  usr/lib/*/ is the library
# folder, and * is anything within a name.
check_lists ()
{
    local list line pattern
    : >owned
    for list in "$1"/*.install; do
        # 'rules' installs what the package has only in some builds
        while read -r line; do
            pattern=$(printf '%s\n' "$line" | sed -e 's|^usr/||' -e 's|\.|\\.|g' \
                -e 's|^lib/\*/|lib(64\|/[^/]*-linux-[^/]*)?/|' \
                -e '/^lib(/!s|\*|[^/]*|g' -e '/^lib(/{s|/slurm\*/|/slurm[^/]*/|; s|\*$|[^/]*|}')
            grep -E "^$pattern(/.*)?$" installed >found || case $line in
                */boot_*.so | */comm_*.so | */device_*.so | */megatron.so | */plugstack-*) ;;
                *) echo "${list##*/}: $line: no such file" ;;
            esac
            cat found >>owned
        done < <(cat "$list"; name=${list##*/}
            sed -n "s/.*dh_install -p${name%.install} '\(.*\)'.*/\1/p" "$debian/rules")
    done
    sort owned | uniq -d | sed 's/$/: in two packages/'
    sort -u owned | comm -23 installed - | sed 's/$/: in no package/'
}
is "$(check_lists "$debian")" "" "each file is in one package"

cp -r "$debian" lists
sed -i '/usr\/bin/d' lists/megatron.install
echo 'usr/share/man/man8/megatron-spank.8' >>lists/megatron.install
echo 'usr/bin/no-such' >>lists/megatron.install
is "$(check_lists lists)" "megatron.install: usr/bin/no-such: no such file
share/man/man8/megatron-spank.8: in two packages
bin/megatron: in no package" "a file too few, one twice and one that is not there are found"

for list in "$debian"/*.install; do
    name=${list##*/}
    ok "grep -qx 'Package: ${name%.install}' '$debian/control'" "${name%.install} is a package"
done
is "$(sed -n 's/^Package: //p' "$debian/control" | while read -r name; do
    [ -s "$debian/$name.install" ] || echo "$name"; done)" "" "no package is without a list"
done_testing
