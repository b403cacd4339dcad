# SYNOPSIS
#
#   X_AC_ISA
#
# DESCRIPTION
#
#   See which x86-64 levels (psABI: v3 has AVX2 and FMA, v4 has AVX-512) the compiler can
#   make code for.  The CPU kernels are compiled once more for each, and the best that the
#   machine has is taken at run time.  Sets the conditionals WITH_ISA_V3 and WITH_ISA_V4,
#   defines HAVE_ISA_V3 and HAVE_ISA_V4, substitutes ISA_V3_CFLAGS and ISA_V4_CFLAGS, and
#   sets x_ac_summary_isa.
#
#   gcc from 14 on tears a fused multiply-add in two where many follow each other in one
#   register.  Then the last row of a block is rounded differently from the others, and
#   results depend on how threads share rows, so it is told not to.
#
#   With the sanitizers gcc can move a function's variables to the heap, to find uses after it
#   has returned, and does not align vectors of 64 bytes there (seen with 14.2).  So the code for
#   v4 is compiled without that search.
#
AC_DEFUN([X_AC_ISA], [
  AC_MSG_CHECKING([whether $CC can be told to keep multiply-adds])
  x_ac_save_CFLAGS=$CFLAGS
  x_ac_keep_fma=--param=avoid-fma-max-bits=0
  CFLAGS="$CFLAGS $x_ac_keep_fma"
  AC_COMPILE_IFELSE([AC_LANG_PROGRAM([], [])],
    [AC_MSG_RESULT([yes])],
    [x_ac_keep_fma=
     AC_MSG_RESULT([no])])
  CFLAGS=$x_ac_save_CFLAGS
  X_AC_ISA_LEVEL([v3], [-march=x86-64-v3 $x_ac_keep_fma])
  X_AC_ISA_LEVEL([v4], [-march=x86-64-v4 -mprefer-vector-width=512 $x_ac_keep_fma])
  AS_IF([test "x$x_ac_isa_v4$enable_sanitizers" = xyesyes], [
    AC_MSG_CHECKING([whether $CC can be told to leave variables on the stack])
    CFLAGS="$CFLAGS --param=asan-use-after-return=0"
    AC_COMPILE_IFELSE([AC_LANG_PROGRAM([], [])],
      [ISA_V4_CFLAGS="$ISA_V4_CFLAGS --param=asan-use-after-return=0"
       AC_MSG_RESULT([yes])],
      [AC_MSG_RESULT([no])])
    CFLAGS=$x_ac_save_CFLAGS
  ])
  AC_SUBST([ISA_V3_CFLAGS])
  AC_SUBST([ISA_V4_CFLAGS])
  AM_CONDITIONAL([WITH_ISA_V3], [test "x$x_ac_isa_v3" = xyes])
  AM_CONDITIONAL([WITH_ISA_V4], [test "x$x_ac_isa_v4" = xyes])
  AS_IF([test "x$x_ac_isa_v3" = xyes],
    [AC_DEFINE([HAVE_ISA_V3], [1], [kernels are compiled for x86-64-v3, too])])
  AS_IF([test "x$x_ac_isa_v4" = xyes],
    [AC_DEFINE([HAVE_ISA_V4], [1], [kernels are compiled for x86-64-v4, too])])
  x_ac_summary_isa=baseline
  AS_IF([test "x$x_ac_isa_v3" = xyes], [x_ac_summary_isa="$x_ac_summary_isa, x86-64-v3"])
  AS_IF([test "x$x_ac_isa_v4" = xyes], [x_ac_summary_isa="$x_ac_summary_isa, x86-64-v4"])
])

# X_AC_ISA_LEVEL(NAME, FLAGS): does the compiler, which must be making 64-bit x86 code,
# take FLAGS?  Sets x_ac_isa_NAME and ISA_NAME_CFLAGS (in capitals).
AC_DEFUN([X_AC_ISA_LEVEL], [
  AC_MSG_CHECKING([whether $CC makes code for x86-64-$1])
  x_ac_save_CFLAGS=$CFLAGS
  CFLAGS="$CFLAGS $2"
  AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[#include <immintrin.h>
#ifndef __x86_64__
# error another processor
#endif
]], [[__builtin_cpu_init ();
      return __builtin_cpu_supports ("avx2") && __builtin_cpu_supports ("avx512f");]])],
    [x_ac_isa_$1=yes
     AS_TR_SH([ISA_]m4_toupper([$1])[_CFLAGS])="$2"],
    [x_ac_isa_$1=no
     AS_TR_SH([ISA_]m4_toupper([$1])[_CFLAGS])=])
  CFLAGS=$x_ac_save_CFLAGS
  AC_MSG_RESULT([$x_ac_isa_$1])
])
