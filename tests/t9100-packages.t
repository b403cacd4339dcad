#!/bin/bash
# The lists of contrib/debian and contrib/rpm: each file that make installs is in exactly one package,
# and each line of a list names a file that is installed, or a module that this build may lack.  Both
# have the same packages and the version of NEWS.md.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"

debian=$MG_SRCDIR/contrib/debian
spec=$MG_SRCDIR/contrib/rpm/slurm-megatron.spec
dest=$TEST_DIR/dest
unset MAKEFLAGS MFLAGS MAKELEVEL
run make -s -C "$MG_BUILDDIR" install DESTDIR="$dest"
is "$status" 0 "make install with a DESTDIR" || diag "$err"
prefix=$(sed -n 's/^prefix = //p' "$MG_BUILDDIR/Makefile")
(cd "$dest$prefix" && find . ! -type d ! -name '*.la' ! -name '*.a' | sed 's|^\./||' | sort) >installed
ok "[ $(wc -l <installed) -gt 100 ]" "$(wc -l <installed) files are installed"

# The lists, PACKAGE.install each, of Debian: with what 'rules' installs only in some builds.
debian_lists ()
{
    local list name
    mkdir "$1"
    for list in "$debian"/*.install; do
        name=${list##*/}
        { cat "$list"; sed -n "s/.*dh_install -p${name%.install} '\(.*\)'.*/\1/p" "$debian/rules"; } \
            >"$1/$name"
    done
}

# The same of the spec, in Debian's words: a list that %install makes has the names of its find.
rpm_lists ()
{
    mkdir "$1"
    awk -v folder="$1" '
        BEGIN {
            path["bindir"] = "usr/bin"; path["libdir"] = "usr/lib/*"; path["datadir"] = "usr/share"
            path["mandir"] = "usr/share/man"; path["docdir"] = "usr/share/doc"
            path["includedir"] = "usr/include"
            name["libmegatron"] = "libmegatron0"; name["libmegatron-devel"] = "libmegatron-dev"
        }
        />modules-cuda$/ { while (match ($0, /-name [a-z_]*\.so/)) {
            made = made "usr/lib/*/slurm-megatron/" substr ($0, RSTART + 6, RLENGTH - 6) "\n"
            $0 = substr ($0, RSTART + RLENGTH) } }
        /^%/ && !/^%(dir|license|\{_)/ { list = "" }
        /^%files/ { list = $2 == "-n" ? $3 : "slurm-megatron-" $2
                    list = folder "/" (list in name ? name[list] : list) ".install"
                    printf "%s", / -f modules-cuda/ ? made : "" >list
                    next }
        list != "" && /^%\{_/ { macro = substr ($0, 4, index ($0, "}") - 4)
            print path[macro] substr ($0, index ($0, "}") + 1) >list }' "$spec"
}

# check_lists FOLDER: what is wrong with its lists, a line each.  usr/lib/*/ is the library folder, and
# * is anything within a name.  Leaves the packages of files in FOLDER.owners.
check_lists ()
{
    local list line pattern
    : >"$1.owners"
    for list in "$1"/*.install; do
        while read -r line; do
            pattern=$(printf '%s\n' "$line" | sed -e 's|^usr/||' -e 's|\.|\\.|g' \
                -e 's|^lib/\*/|lib(64\|/[^/]*-linux-[^/]*)?/|' \
                -e '/^lib(/!s|\*|[^/]*|g' -e '/^lib(/{s|/slurm\*/|/slurm[^/]*/|; s|\*$|[^/]*|}')
            grep -E "^$pattern(/.*)?$" installed >found || case $line in
                */boot_*.so | */comm_*.so | */device_*.so | */megatron.so | */plugstack-*) ;;
                *) echo "${list##*/}: $line: no such file" ;;
            esac
            sed "s|\$| ${list##*/}|" found >>"$1.owners"
        done <"$list"
    done
    sort -o "$1.owners" "$1.owners"
    cut -d ' ' -f 1 "$1.owners" | uniq -d | sed 's/$/: in two packages/'
    cut -d ' ' -f 1 "$1.owners" | uniq | comm -23 installed - | sed 's/$/: in no package/'
}
debian_lists deb
rpm_lists rpm
is "$(check_lists deb)" "" "each file is in one Debian package"
is "$(check_lists rpm)" "" "each file is in one RPM"
is "$(ls rpm)" "$(ls deb)" "both have the same packages"
ok "diff deb.owners rpm.owners" "with the same files"

cp -r deb lists
sed -i '/usr\/bin/d' lists/megatron.install
echo 'usr/share/man/man8/megatron-spank.8' >>lists/megatron.install
echo 'usr/bin/no-such' >>lists/megatron.install
is "$(check_lists lists)" "megatron.install: usr/bin/no-such: no such file
share/man/man8/megatron-spank.8: in two packages
bin/megatron: in no package" "a file too few, one twice and one that is not there are found"

is "$(sed -n 's/^Package: //p' "$debian/control" | sort)" "$(ls deb | sed 's/\.install$//' | sort)" \
    "each Debian package has a list, and each list a package"
is "$(sed -n 's/^%package //p' "$spec" | sort)" "$(sed -n 's/^%files //p' "$spec" | sed 's/ -f .*//' | sort)" \
    "each RPM has a list, and each list an RPM"

# One version everywhere.
version=$(sed -n 's/^## \([0-9][0-9.]*\).*/\1/p' "$MG_SRCDIR/NEWS.md" | head -n 1)
is "$(sed -n '1s/.*(\(.*\)).*/\1/p' "$debian/changelog")" "$version" "the version of the Debian packages"
is "$(sed -n 's/^Version: *//p' "$spec")" "$version" "the version of the RPMs"
ok "grep -q ' - $version-1\$' '$spec'" "which their changelog has, too"
done_testing
