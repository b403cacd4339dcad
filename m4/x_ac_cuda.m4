# SYNOPSIS
#
#   X_AC_CUDA
#
# DESCRIPTION
#
#   Look for a CUDA toolkit: nvcc 13.0 or later with the headers beside it, and g++, which
#   nvcc calls.  --with-cuda=DIR names the toolkit; otherwise it is the one whose nvcc is
#   first in PATH.  --with-cuda-arch=LIST has the architectures that kernels are compiled
#   for, separated by commas: 90 is code for compute capability 9.0, 80+PTX is code for 8.0
#   and PTX, which drivers compile for later GPUs.  The toolkit must have each of them.
#
#   Sets the conditional WITH_CUDA, defines HAVE_CUDA, and substitutes NVCC, NVCC_FLAGS
#   (architectures), CUDA_CXX (g++), CUDA_CPPFLAGS (headers), CUDA_LIBS, and CUDA_SUMMARY, which
#   tests print where they are skipped.  Sets the conditional WITH_CUDA_DOUBLE where the tests can
#   run kernels on the CPU: x86-64, without --enable-sanitizers.
#
AC_DEFUN([X_AC_CUDA], [
  X_AC_WITH([cuda], [kernels for NVIDIA GPUs], [bin/nvcc])
  AC_ARG_WITH([cuda-arch],
    [AS_HELP_STRING([--with-cuda-arch=LIST],
      [GPU architectures, such as 80+PTX,90 @<:@80+PTX,90,100@:>@])],
    [], [with_cuda_arch=80+PTX,90,100])
  NVCC= NVCC_FLAGS= CUDA_CXX= CUDA_CPPFLAGS= CUDA_LIBS=
  x_ac_cuda_reason=
  AS_IF([test "x$x_ac_want_cuda" != xno], [
    AS_IF([test -n "$x_ac_dir_cuda"], [NVCC=$x_ac_dir_cuda/bin/nvcc],
      [AC_PATH_PROG([NVCC], [nvcc])])
    AC_CHECK_PROGS([CUDA_CXX], [g++])
    X_AC_CUDA_TOOLKIT
  ])
  AS_IF([test "x$x_ac_want_cuda" = xno || test -n "$x_ac_cuda_reason"],
    [X_AC_WITH_OFF([cuda], [$x_ac_cuda_reason], [nvidia-cuda-toolkit g++])],
    [X_AC_WITH_ON([cuda], [nvcc $x_ac_cuda_version, $with_cuda_arch])
     AC_DEFINE([HAVE_CUDA], [1], [there are kernels for NVIDIA GPUs])])
  CUDA_SUMMARY=$x_ac_summary_cuda
  x_ac_cuda_double=$x_ac_have_cuda
  AS_IF([test "x$x_ac_have_cuda" = xyes], [
    AS_CASE([$host_cpu], [x86_64], [],
      [x_ac_cuda_double=no CUDA_SUMMARY="on, but no double for $host_cpu"])
    AS_IF([test "x$enable_sanitizers" = xyes],
      [x_ac_cuda_double=no CUDA_SUMMARY="on, but no double with --enable-sanitizers"])])
  AC_SUBST([NVCC])
  AC_SUBST([NVCC_FLAGS])
  AC_SUBST([CUDA_CXX])
  AC_SUBST([CUDA_CPPFLAGS])
  AC_SUBST([CUDA_LIBS])
  AC_SUBST([CUDA_SUMMARY])
  AM_CONDITIONAL([WITH_CUDA], [test "x$x_ac_have_cuda" = xyes])
  AM_CONDITIONAL([WITH_CUDA_DOUBLE], [test "x$x_ac_cuda_double" = xyes])
])

# Sets x_ac_cuda_version, CUDA_CPPFLAGS and NVCC_FLAGS, or x_ac_cuda_reason: why not.
AC_DEFUN([X_AC_CUDA_TOOLKIT], [
  AC_MSG_CHECKING([for a CUDA toolkit])
  x_ac_cuda_version=
  AS_IF([test -n "$NVCC"], [
    x_ac_cuda_version=`"$NVCC" --version 2>/dev/null | sed -n 's/.*release \(@<:@0-9.@:>@*\).*/\1/p'`
    x_ac_cuda_root=`readlink -f "$NVCC"`
    x_ac_cuda_root=`dirname "$x_ac_cuda_root"`
    x_ac_cuda_root=`dirname "$x_ac_cuda_root"`
  ])
  AS_IF([test -z "$NVCC"], [x_ac_cuda_reason="no nvcc in PATH"],
    [test -z "$x_ac_cuda_version"], [x_ac_cuda_reason="$NVCC does not tell its release"],
    [test "${x_ac_cuda_version%%.*}" -lt 13],
      [x_ac_cuda_reason="$NVCC is of CUDA $x_ac_cuda_version, 13.0 is needed"],
    [test ! -r "$x_ac_cuda_root/include/cuda_runtime.h"],
      [x_ac_cuda_reason="no $x_ac_cuda_root/include/cuda_runtime.h"],
    [test -z "$CUDA_CXX"], [x_ac_cuda_reason="no g++"])
  AS_IF([test -z "$x_ac_cuda_reason"], [
    CUDA_CPPFLAGS="-isystem $x_ac_cuda_root/include"
    CUDA_LIBS="-L$x_ac_cuda_root/lib64 -lcublasLt -lcudart"
    x_ac_cuda_known=`"$NVCC" --list-gpu-arch 2>/dev/null | tr '\n' ' '`
    AS_CASE([",$with_cuda_arch,"], [*,,*],
      [AC_MSG_ERROR([--with-cuda-arch=$with_cuda_arch: want a list such as 80+PTX,90])])
    for x_ac_arch in `echo "$with_cuda_arch" | tr , ' '`; do
      x_ac_number=`echo "$x_ac_arch" | sed 's/+PTX$//'`
      AS_CASE([" $x_ac_cuda_known"],
        [*" compute_$x_ac_number "*], [
          NVCC_FLAGS="$NVCC_FLAGS -gencode=arch=compute_$x_ac_number,code=sm_$x_ac_number"
          AS_CASE([$x_ac_arch], [*+PTX],
            [NVCC_FLAGS="$NVCC_FLAGS -gencode=arch=compute_$x_ac_number,code=compute_$x_ac_number"])],
        [: ${x_ac_cuda_reason:="nvcc $x_ac_cuda_version has no architecture $x_ac_number (--with-cuda-arch=$with_cuda_arch)"}])
    done
  ])
  AC_MSG_RESULT([${x_ac_cuda_reason:-$x_ac_cuda_version}])
])
