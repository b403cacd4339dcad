# SYNOPSIS
#
#   X_AC_PMIX
#
# DESCRIPTION
#
#   Look for the PMIx client library: pkg-config's pmix, or DIR/include and DIR/lib.
#   Compiles and links a probe.  Sets the conditional WITH_PMIX, defines HAVE_PMIX, and
#   substitutes PMIX_CFLAGS and PMIX_LIBS.
#
AC_DEFUN([X_AC_PMIX], [
  X_AC_WITH([pmix], [build the PMIx bootstrap module],
    [include/pmix.h])
  x_ac_pmix_found=no
  AS_IF([test "x$x_ac_want_pmix" != xno], [
    AS_IF([test -n "$x_ac_dir_pmix"],
      [PMIX_CFLAGS="-I$x_ac_dir_pmix/include"
       PMIX_LIBS="-L$x_ac_dir_pmix/lib -Wl,-rpath,$x_ac_dir_pmix/lib -lpmix"],
      [PKG_CHECK_MODULES([PMIX], [pmix], [], [PMIX_CFLAGS= PMIX_LIBS=-lpmix])])
    x_ac_save_CPPFLAGS=$CPPFLAGS x_ac_save_LIBS=$LIBS
    CPPFLAGS="$CPPFLAGS $PMIX_CFLAGS"
    LIBS="$PMIX_LIBS $LIBS"
    AC_MSG_CHECKING([whether a PMIx client links])
    AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <pmix.h>]],
      [[pmix_proc_t me; return PMIx_Init (&me, NULL, 0);]])], [x_ac_pmix_found=yes])
    AC_MSG_RESULT([$x_ac_pmix_found])
    CPPFLAGS=$x_ac_save_CPPFLAGS LIBS=$x_ac_save_LIBS
  ])
  AS_IF([test "$x_ac_pmix_found" = yes],
    [X_AC_WITH_ON([pmix], [$PMIX_LIBS])
     AC_DEFINE([HAVE_PMIX], [1], [The PMIx bootstrap module is built])],
    [X_AC_WITH_OFF([pmix], [no usable pmix.h and libpmix], [libpmix-dev])])
  AC_SUBST([PMIX_CFLAGS])
  AC_SUBST([PMIX_LIBS])
  AM_CONDITIONAL([WITH_PMIX], [test "x$x_ac_have_pmix" = xyes])
])
