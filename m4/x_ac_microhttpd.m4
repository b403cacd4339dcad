# SYNOPSIS
#
#   X_AC_MICROHTTPD
#
# DESCRIPTION
#
#   Look with pkg-config for libmicrohttpd (0.9.71 or later), with which "megatron serve" talks to
#   its clients; without it the command says so.  Compiles and links a probe.  Sets the conditional
#   WITH_MICROHTTPD, defines HAVE_MICROHTTPD, and substitutes MICROHTTPD_CFLAGS and MICROHTTPD_LIBS.
#
AC_DEFUN([X_AC_MICROHTTPD], [
  X_AC_WITH([microhttpd], [megatron serve], [include/microhttpd.h])
  x_ac_microhttpd_found=no
  MICROHTTPD_CFLAGS= MICROHTTPD_LIBS=-lmicrohttpd
  AS_IF([test -n "$x_ac_dir_microhttpd"],
    [MICROHTTPD_CFLAGS="-I$x_ac_dir_microhttpd/include"
     MICROHTTPD_LIBS="-L$x_ac_dir_microhttpd/lib -Wl,-rpath,$x_ac_dir_microhttpd/lib -lmicrohttpd"],
    [$PKG_CONFIG --exists libmicrohttpd],
    [MICROHTTPD_CFLAGS=`$PKG_CONFIG --cflags libmicrohttpd`
     MICROHTTPD_LIBS=`$PKG_CONFIG --libs libmicrohttpd`])
  AS_IF([test "x$x_ac_want_microhttpd" != xno], [
    x_ac_save_CPPFLAGS=$CPPFLAGS x_ac_save_LIBS=$LIBS
    CPPFLAGS="$CPPFLAGS $MICROHTTPD_CFLAGS"
    LIBS="$MICROHTTPD_LIBS $LIBS"
    AC_MSG_CHECKING([whether a libmicrohttpd program links])
    AC_LINK_IFELSE([AC_LANG_PROGRAM([[
        #include <microhttpd.h>
        #if MHD_VERSION < 0x00097100
        #error too old
        #endif]],
      [[return MHD_is_feature_supported (MHD_FEATURE_POLL) != MHD_YES;]])],
      [x_ac_microhttpd_found=yes])
    AC_MSG_RESULT([$x_ac_microhttpd_found])
    CPPFLAGS=$x_ac_save_CPPFLAGS LIBS=$x_ac_save_LIBS
  ])
  AS_IF([test "$x_ac_microhttpd_found" = yes],
    [X_AC_WITH_ON([microhttpd], [$MICROHTTPD_LIBS])
     AC_DEFINE([HAVE_MICROHTTPD], [1], [libmicrohttpd talks to the clients of a server])],
    [MICROHTTPD_CFLAGS= MICROHTTPD_LIBS=
     X_AC_WITH_OFF([microhttpd], [no usable microhttpd.h and libmicrohttpd, no megatron serve],
       [libmicrohttpd-dev])])
  AC_SUBST([MICROHTTPD_CFLAGS])
  AC_SUBST([MICROHTTPD_LIBS])
  AM_CONDITIONAL([WITH_MICROHTTPD], [test "x$x_ac_have_microhttpd" = xyes])
])
