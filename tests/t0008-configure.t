#!/bin/bash
# configure finds the headers of the Slurm whose srun is first in PATH, unless another is named.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"

[ ! -f "$MG_SRCDIR/config.status" ] || skip_all "the source tree itself is configured"
[ -x "$MG_SRCDIR/configure" ] || skip_all "no configure"

# make_slurm PREFIX YEAR MONTH: a Slurm with all that configure looks at.
make_slurm() {
    mkdir -p "$1/bin" "$1/include/slurm"
    printf '#!/bin/sh\necho slurm %s.%02d.3\n' "$2" "$3" >"$1/bin/srun"
    chmod +x "$1/bin/srun"
    : >"$1/include/slurm/spank.h"
    echo "#define SLURM_VERSION_NUMBER ($2 << 16 | $3 << 8 | 3)" \
        >"$1/include/slurm/slurm_version.h"
}

# headers ARGUMENT...: run configure, and leave the version of the headers that it found in
# $out.  A wrong argument for what comes next ends it early.
headers() {
    "$MG_SRCDIR/configure" -q "$@" --with-pmix=/nonexistent >configured 2>&1
    grep -q -e '--with-pmix=/nonexistent: that directory has no' configured \
        || diag "$(cat configured)"
    out=$(sed -n 's/^#define MG_SLURM_VERSION "\(.*\)"/\1/p' config.log)
}

make_slurm "$PWD/new" 97 5
make_slurm "$PWD/other" 98 11
mkdir links
ln -s "$PWD/new/bin/srun" links/srun

PATH=$PWD/new/bin:$PATH headers
is "$out" 97.05.3 "the headers beside the srun that is first in PATH"
PATH=$PWD/links:$PATH headers --with-slurm=yes
is "$out" 97.05.3 "also where a link leads to srun"
PATH=$PWD/new/bin:$PATH headers --with-slurm="$PWD/other"
is "$out" 98.11.3 "a named directory goes before"
PATH=$PWD/new/bin:$PATH headers --without-slurm
is "$out" none "and none is looked for without"
done_testing
