#!/bin/bash
# configure --with-cuda and --with-nccl: what it finds, and one line for each thing that does not fit.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"

[ ! -f "$MG_SRCDIR/config.status" ] || skip_all "the source tree itself is configured"
[ -x "$MG_SRCDIR/configure" ] || skip_all "no configure"

# make_toolkit PREFIX RELEASE ARCH...: a toolkit with all that configure looks at.
make_toolkit() {
    local prefix=$1 release=$2
    shift 2
    mkdir -p "$prefix/bin" "$prefix/include" "$prefix/lib64"
    : >"$prefix/include/cuda_runtime.h"
    cp libcudart.so "$prefix/lib64"
    {
        echo '#!/bin/sh'
        echo 'case $1 in'
        echo "--version) echo 'Cuda compilation tools, release $release, V$release.88' ;;"
        echo "--list-gpu-arch) printf '%s\\n' $* ;;"
        echo 'esac'
    } >"$prefix/bin/nvcc"
    chmod +x "$prefix/bin/nvcc"
}

# make_nccl PREFIX FOLDER VERSION: NCCL's header, and a library in this folder of the prefix.
make_nccl() {
    mkdir -p "$1/include" "$1/$2"
    cat >"$1/include/nccl.h" <<END
#include <cuda_runtime.h>
#define NCCL_VERSION_CODE $3
#define NCCL_VERSION(x, y, z) ((x) * 10000 + (y) * 100 + (z))
typedef enum { ncclSuccess } ncclResult_t;
ncclResult_t ncclGetVersion (int *version);
END
    cp libnccl.so "$1/$2"
}

echo 'int ncclGetVersion (int *version) { return *version = 0; }' >nccl.c
echo 'int cudaMalloc (void **at, unsigned long n) { return !at + !n; }' >cudart.c
for library in nccl cudart; do
    ${CC:-cc} -shared -fPIC -o lib$library.so $library.c || skip_all "no compiler"
done

# What configure learns before it looks for CUDA is learned once.
"$MG_SRCDIR/configure" -q --without-cuda --with-slurm=/nonexistent --cache-file=all >configured 2>&1
grep -v 'NVCC\|CUDA\|NCCL' all >known

# cuda ARGUMENT...: run configure as far as CUDA; leave its error line in $line, what the
# architectures became in $flags, and the lines of the summary in $summary and $nccl.  A wrong argument
# for what comes next ends it early.
cuda() {
    rm -f config.log
    cp known cache
    "$MG_SRCDIR/configure" -q --cache-file=cache "$@" --with-slurm=/nonexistent >configured 2>&1
    line=$(sed -n 's/^configure: error: //p' configured | grep -v '^--with-slurm=/nonexistent: ')
    flags=$(sed -n "s/^NVCC_FLAGS='\(.*\)'/\1/p" config.log | sed 's/-gencode=//g')
    summary=$(sed -n "s/^CUDA_SUMMARY='\(.*\)'/\1/p" config.log)
    nccl=$(sed -n "s/^NCCL_SUMMARY='\(.*\)'/\1/p" config.log)
}

make_toolkit "$PWD/new" 13.1 compute_80 compute_90 compute_90a compute_100
make_toolkit "$PWD/old" 12.8 compute_80 compute_90 compute_100
make_toolkit "$PWD/few" 13.0 compute_90
make_toolkit "$PWD/bare" 13.0 compute_90
rm "$PWD/bare/include/cuda_runtime.h"
mkdir -p empty silent
printf '#!/bin/sh\nexit 1\n' >silent/nvcc
chmod +x silent/nvcc

cuda --with-cuda="$PWD/new"
is "$line" "" "a toolkit that is named"
is "${flags# }" "arch=compute_80,code=sm_80 arch=compute_80,code=compute_80 \
arch=compute_90,code=sm_90 arch=compute_100,code=sm_100" \
    "80, 90 and 100, and PTX of 80, by default"
like "$summary" "^on +\(nvcc 13.1, 80\+PTX,90,100\)" "the summary has both"
like "$nccl" "^off +\(no usable nccl.h and libnccl of NCCL 2.27 or later; Debian: libnccl-dev\)" \
    "NCCL is left out where it is not there"

make_nccl "$PWD/nccl" lib 22809
make_nccl "$PWD/early" lib64 22603
cuda --with-cuda="$PWD/new" --with-nccl="$PWD/nccl"
is "$line$nccl" "on   ($PWD/nccl/lib/libnccl.so)" "NCCL in a directory that is named"
cuda --with-cuda="$PWD/new" --with-nccl="$PWD/early"
is "$line" "--with-nccl: no usable nccl.h and libnccl of NCCL 2.27 or later; install it (Debian: \
apt-get install libnccl-dev) or say --without-nccl" "an old NCCL"
if long; then
    export LIBRARY_PATH=$PWD/nccl/lib
    cuda --with-cuda="$PWD/new" CPPFLAGS="-I$PWD/nccl/include"
    is "$line$nccl" "on   ($PWD/nccl/lib/libnccl.so)" "NCCL where the compiler looks"
    unset LIBRARY_PATH
    make_nccl "$PWD/new" lib64 22809
    cuda --with-cuda="$PWD/new"
    is "$line$nccl" "on   ($PWD/new/lib64/libnccl.so)" "NCCL in the toolkit"
    cuda --with-cuda="$PWD/new" --without-nccl
    is "$line$nccl" "off  (--without-nccl)" "it may be left out"
    cuda --without-cuda --with-nccl
    like "$line" "^--with-nccl: CUDA is off" "without CUDA it cannot be had"
fi

cuda --with-cuda="$PWD/old"
is "$line" "--with-cuda: $PWD/old/bin/nvcc is of CUDA 12.8, 13.0 is needed; install it (Debian: \
apt-get install nvidia-cuda-toolkit g++) or say --without-cuda" "an old nvcc"
cuda --with-cuda="$PWD/few"
like "$line" "nvcc 13.0 has no architecture 80 \(--with-cuda-arch=80\+PTX,90,100\)" \
    "an architecture that nvcc lacks"
cuda --with-cuda="$PWD/new" --with-cuda-arch=90a
is "$line ${flags# }" " arch=compute_90a,code=sm_90a" "an architecture that is asked for"
lists=(90,, 70)
long && lists+=(,90 '' 90+ptx 'x y')
for list in "${lists[@]}"; do
    cuda --with-cuda="$PWD/new" --with-cuda-arch="$list"
    like "$line" "--with-cuda-arch=.*(want a list such as|)|has no architecture" "list '$list'"
done
cuda --with-cuda="$PWD/bare"
like "$line" "no $PWD/bare/include/cuda_runtime.h" "a toolkit without headers"
if long; then
    cuda --with-cuda="$PWD/empty"
    is "$line" "--with-cuda=$PWD/empty: that directory has no bin/nvcc" "a directory without nvcc"
    cuda --with-cuda=maybe
    like "$line" "--with-cuda=maybe: want yes, check, no or an absolute directory" "another word"
fi
echo "ac_cv_prog_CUDA_CXX=\${ac_cv_prog_CUDA_CXX=}" >>known
cuda --with-cuda="$PWD/new"
sed -i '$d' known
like "$line" "no g\+\+" "no g++"

# Without being asked, it is left out with its reason.
PATH=$PWD/old/bin:$PATH cuda
is "$line" "" "an old nvcc in PATH"
like "$summary" "^off +\($PWD/old/bin/nvcc is of CUDA 12.8, 13.0 is needed; Debian: " "is told"
if long; then
    PATH=$PWD/silent:$PATH cuda
    like "$summary" "^off +\($PWD/silent/nvcc does not tell its release" "an nvcc that fails"
    cuda --without-cuda
    like "$summary" "^off +\(--without-cuda\)" "and it may be left out"
fi
done_testing
