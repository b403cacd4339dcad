#!/bin/bash
# The release tarball holds every file of the repository.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"

[ -e "$MG_SRCDIR/.git" ] || skip_all "this is not a git checkout"
command -v git >/dev/null || skip_all "git is not installed"
command -v make >/dev/null || skip_all "make is not installed"

git -c safe.directory='*' -C "$MG_SRCDIR" ls-files | grep -vE '^(\.ci/|\.gitignore$)' \
    | while read -r file; do
          [ ! -e "$MG_SRCDIR/$file" ] || echo "$file"
      done | sort > want
ok "[ -s want ]" "git lists files"
unset MAKEFLAGS MFLAGS MAKELEVEL
run make -s -C "$MG_BUILDDIR" distdir distdir="$TEST_DIR/dist"
is "$status" 0 "make distdir works" || diag "$err"
(cd dist && find . -type f | sed 's|^\./||' | sort) > have
is "$(comm -23 want have)" "" "no file of the repository is missing"
is "$(cat dist/.tarball-version)" "$(megatron --version | sed -n 's/^megatron //p')" \
    "the version is in it"
is "$(cd dist && find . -name '*.t' -type f ! -perm -u=x)" "" "tests can be executed"
done_testing
