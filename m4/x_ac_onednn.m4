# SYNOPSIS
#
#   X_AC_ONEDNN
#
# DESCRIPTION
#
#   Look for oneDNN, whose matrix products the CPU kernels use; without it our own
#   reference product serves, which is correct and slow.  Compiles and links a probe.
#   Sets the conditional WITH_ONEDNN, defines HAVE_ONEDNN, and substitutes DNNL_CFLAGS
#   and DNNL_LIBS.
#
AC_DEFUN([X_AC_ONEDNN], [
  X_AC_WITH([onednn], [fast matrix products on the CPU],
    [include/oneapi/dnnl/dnnl.h])
  x_ac_onednn_found=no
  DNNL_CFLAGS= DNNL_LIBS=
  AS_IF([test "x$x_ac_want_onednn" != xno], [
    DNNL_LIBS=-ldnnl
    AS_IF([test -n "$x_ac_dir_onednn"],
      [DNNL_CFLAGS="-I$x_ac_dir_onednn/include"
       DNNL_LIBS="-L$x_ac_dir_onednn/lib -Wl,-rpath,$x_ac_dir_onednn/lib -ldnnl"])
    x_ac_save_CPPFLAGS=$CPPFLAGS x_ac_save_LIBS=$LIBS
    CPPFLAGS="$CPPFLAGS $DNNL_CFLAGS"
    LIBS="$DNNL_LIBS $LIBS"
    AC_MSG_CHECKING([whether a oneDNN program links])
    AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <oneapi/dnnl/dnnl.h>]],
      [[float a = 1, b = 1, c = 0;
        return dnnl_sgemm ('N', 'N', 1, 1, 1, 1.f, &a, 1, &b, 1, 0.f, &c, 1);]])],
      [x_ac_onednn_found=yes])
    AC_MSG_RESULT([$x_ac_onednn_found])
    CPPFLAGS=$x_ac_save_CPPFLAGS LIBS=$x_ac_save_LIBS
  ])
  AS_IF([test "$x_ac_onednn_found" = yes],
    [X_AC_WITH_ON([onednn], [$DNNL_LIBS])
     AC_DEFINE([HAVE_ONEDNN], [1], [oneDNN computes matrix products on the CPU])],
    [DNNL_CFLAGS= DNNL_LIBS=
     X_AC_WITH_OFF([onednn], [no usable dnnl.h and libdnnl, matrix products will be slow],
       [libdnnl-dev])])
  AC_SUBST([DNNL_CFLAGS])
  AC_SUBST([DNNL_LIBS])
  AM_CONDITIONAL([WITH_ONEDNN], [test "x$x_ac_have_onednn" = xyes])
])
