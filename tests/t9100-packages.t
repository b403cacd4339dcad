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

# What the build needs: install-deps, control, the spec and Spack's recipe have the same libraries and
# tools.  "-" is for what one of them does not name.
cat >needs <<'END'
# install-deps        control               spec                  recipe
autoconf              autoconf              -                     autoconf
automake              automake              -                     automake
-                     debhelper-compat      -                     -
gcc                   -                     gcc                   c
libbz2-dev            libbz2-dev            bzip2-devel           bzip2
libc6-dev             -                     -                     -
libdnnl-dev           libdnnl-dev           onednn-devel          onednn
libjansson-dev        libjansson-dev        jansson-devel         jansson
liblzma-dev           liblzma-dev           xz-devel              xz
libmicrohttpd-dev     libmicrohttpd-dev     libmicrohttpd-devel   libmicrohttpd
libopenmpi-dev        libopenmpi-dev        openmpi-devel         mpi
libpcre2-dev          libpcre2-dev          pcre2-devel           pcre2
libpmix-dev           libpmix-dev           pmix-devel            pmix
libprotobuf-c-dev     libprotobuf-c-dev     protobuf-c-devel      protobuf-c
libslurm-dev          libslurm-dev          slurm-devel           slurm
libtool               libtool               -                     libtool
libucx-dev            libucx-dev            ucx-devel             ucx
libutf8proc-dev       libutf8proc-dev       utf8proc-devel        utf8proc
libxxhash-dev         libxxhash-dev         xxhash-devel          xxhash
libyaml-dev           libyaml-dev           libyaml-devel         libyaml
libzstd-dev           libzstd-dev           libzstd-devel         zstd
make                  -                     make                  gmake
pkg-config            pkg-config            pkgconfig             pkgconfig
protobuf-c-compiler   protobuf-c-compiler   protobuf-c-compiler   -
zlib1g-dev            zlib1g-dev            zlib-devel            zlib-api
# with CUDA
-                     -                     gcc-c++               cxx
-                     -                     -                     cuda
END
column_is () # COLUMN NAME: the names on standard input are those of the table
{
    is "$(sort -u)" "$(awk -v n="$1" '!/^#/ && $n != "-" { print $n }' needs | sort -u)" \
        "$2 names what the build needs"
}
sed -n '/^build_packages=/,/^"/s/^    //p' "$MG_SRCDIR/contrib/install-deps" >list
column_is 1 contrib/install-deps <list
sed -n '/^Build-Depends:/,/^[A-Z]/s/^ \([^ ,]*\).*/\1/p' "$debian/control" >list
column_is 2 contrib/debian/control <list
sed -n 's/^BuildRequires: *//p' "$spec" >list
column_is 3 contrib/rpm/slurm-megatron.spec <list
sed -n 's/.*depends_on("\([^"@]*\).*/\1/p' "$MG_SRCDIR/contrib/spack/package.py" >list
column_is 4 contrib/spack/package.py <list

# A package that is built without tests makes nothing of tests.
programs=$(sed -n 's/^programs = \(.\)/\1/p' "$debian/rules")
ok "grep -F -e '{!?with_check:%global programs $programs}' '$spec'" "both are built with: $programs"
# shellcheck disable=SC2086 # words
make -pqn -C "$MG_BUILDDIR" all-am $programs 2>/dev/null | grep -E '^all-(am|local):' >goals
ok "grep -q '^all-am:.* libmegatron\.la .* all-local' goals && ! grep ' tests/' goals" \
    "which leaves out the programs of tests"

# The commands: their manual pages are installed, and the packages' descriptions name them.
megatron --help | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p' | sort >commands
sed 's|.*|share/man/man1/megatron-&.1|' commands >pages
is "$(comm -23 pages installed)" "" "each of $(wc -l <commands) commands has a manual page" # sorted, both
for list in "$debian/control" "$spec"; do
    sed -n '/^Description: train/,/^$/p; /^%description -n megatron$/,/^%package/p' "$list" \
        | tr '\n' ' ' | sed 's/.*subcommands//; s/their.*//' | tr -cs a-z '\n' | grep -vx and | grep . \
        | sort >named
    is "$(cat named)" "$(cat commands)" "the description in ${list##*/} names each command"
done

# One version everywhere.
version=$(sed -n 's/^## \([0-9][0-9.]*\).*/\1/p' "$MG_SRCDIR/NEWS.md" | head -n 1)
is "$(sed -n '1s/.*(\(.*\)).*/\1/p' "$debian/changelog")" "$version" "the version of the Debian packages"
is "$(sed -n 's/^Version: *//p' "$spec")" "$version" "the version of the RPMs"
ok "grep -q ' - $version-1\$' '$spec'" "which their changelog has, too"
done_testing
