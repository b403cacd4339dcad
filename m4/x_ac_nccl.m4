# SYNOPSIS
#
#   X_AC_NCCL
#
# DESCRIPTION
#
#   Look for NCCL (2.27 or later), through which GPUs talk, after X_AC_CUDA, whose runtime NCCL's
#   header needs.  --with-nccl=DIR names where NCCL lies; otherwise it is the one in the CUDA toolkit,
#   or else the one that the compiler finds by itself.  Only one loadable module uses it.  Compiles and
#   links a probe.
#
#   Sets the conditional WITH_NCCL, and substitutes NCCL_CPPFLAGS (headers), NCCL_LIBS, NCCL_LIBRARY
#   (the file, whose functions the double of NCCL must have) and NCCL_SUMMARY, which tests print where
#   they are skipped.
#
AC_DEFUN([X_AC_NCCL], [
  X_AC_WITH([nccl], [build the NCCL communicator module], [include/nccl.h])
  NCCL_CPPFLAGS= NCCL_LIBS= NCCL_LIBRARY=
  x_ac_nccl_reason="no usable nccl.h and libnccl of NCCL 2.27 or later"
  AS_IF([test "x$x_ac_have_cuda" != xyes], [x_ac_nccl_reason="CUDA is off"],
    [test "x$x_ac_want_nccl" != xno], [
      AS_IF([test -n "$x_ac_dir_nccl"],
        [X_AC_NCCL_IN(["$x_ac_dir_nccl"])],
        [X_AC_NCCL_IN(["$x_ac_cuda_root"])
         AS_IF([test -z "$NCCL_LIBS"], [X_AC_NCCL_IN([])])])])
  AS_IF([test -n "$NCCL_LIBS"],
    [X_AC_WITH_ON([nccl], [$NCCL_LIBRARY])],
    [X_AC_WITH_OFF([nccl], [$x_ac_nccl_reason], [libnccl-dev])])
  NCCL_SUMMARY=$x_ac_summary_nccl
  AC_SUBST([NCCL_CPPFLAGS])
  AC_SUBST([NCCL_LIBS])
  AC_SUBST([NCCL_LIBRARY])
  AC_SUBST([NCCL_SUMMARY])
  AM_CONDITIONAL([WITH_NCCL], [test "x$x_ac_have_nccl" = xyes])
])

# X_AC_NCCL_IN(DIR): sets NCCL_CPPFLAGS, NCCL_LIBS and NCCL_LIBRARY if NCCL is there.  DIR is empty for
# what the compiler finds by itself.
AC_DEFUN([X_AC_NCCL_IN], [
  x_ac_nccl_root=$1
  x_ac_nccl_cppflags= x_ac_nccl_file=
  AS_IF([test -n "$x_ac_nccl_root"], [
    x_ac_nccl_cppflags="-isystem $x_ac_nccl_root/include"
    AS_CASE([$x_ac_nccl_root], [/usr|/usr/], [x_ac_nccl_cppflags=])
    for x_ac_dir in lib64 lib "lib/`$CC -print-multiarch 2>/dev/null`"; do
      AS_IF([test -z "$x_ac_nccl_file" && test -r "$x_ac_nccl_root/$x_ac_dir/libnccl.so"],
        [x_ac_nccl_file=$x_ac_nccl_root/$x_ac_dir/libnccl.so])
    done
    x_ac_nccl_libs="-L`dirname "$x_ac_nccl_file"` -lnccl"
  ], [
    x_ac_nccl_file=`$CC -print-file-name=libnccl.so`
    AS_CASE([$x_ac_nccl_file], [/*], [], [x_ac_nccl_file=]) # the bare name: it is not there
    x_ac_nccl_libs=-lnccl
  ])
  AS_IF([test -r "$x_ac_nccl_file"], [
    x_ac_save_CPPFLAGS=$CPPFLAGS x_ac_save_LIBS=$LIBS
    CPPFLAGS="$CPPFLAGS $x_ac_nccl_cppflags $CUDA_CPPFLAGS"
    x_ac_nccl_libs="$x_ac_nccl_libs -L$x_ac_cuda_root/lib64 -lcudart"
    LIBS="$x_ac_nccl_libs $LIBS"
    AC_MSG_CHECKING([whether a program links with $x_ac_nccl_file])
    AC_LINK_IFELSE([AC_LANG_PROGRAM([[
        #include <nccl.h>
        #if NCCL_VERSION_CODE < NCCL_VERSION (2, 27, 0)
        #error too old
        #endif]],
      [[int version;
        return ncclGetVersion (&version) != ncclSuccess;]])],
      [AC_MSG_RESULT([yes])
       NCCL_CPPFLAGS=$x_ac_nccl_cppflags
       NCCL_LIBS=$x_ac_nccl_libs
       NCCL_LIBRARY=$x_ac_nccl_file],
      [AC_MSG_RESULT([no])])
    CPPFLAGS=$x_ac_save_CPPFLAGS LIBS=$x_ac_save_LIBS
  ])
])
