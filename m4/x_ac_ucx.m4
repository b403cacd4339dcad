# SYNOPSIS
#
#   X_AC_UCX
#
# DESCRIPTION
#
#   Look for UCX (1.13 or later), through which ranks can talk instead of MPI.  Only one loadable
#   module uses it.  Compiles and links a probe.  Sets the conditional WITH_UCX, defines HAVE_UCX,
#   and substitutes UCX_CFLAGS and UCX_LIBS.
#
AC_DEFUN([X_AC_UCX], [
  X_AC_WITH([ucx], [build the UCX communicator module], [include/ucp/api/ucp.h])
  x_ac_ucx_found=no
  UCX_CFLAGS= UCX_LIBS=
  AS_IF([test "x$x_ac_want_ucx" != xno], [
    UCX_LIBS="-lucp -lucs"
    AS_IF([test -n "$x_ac_dir_ucx"],
      [UCX_CFLAGS="-I$x_ac_dir_ucx/include"
       UCX_LIBS="-L$x_ac_dir_ucx/lib -Wl,-rpath,$x_ac_dir_ucx/lib -lucp -lucs"])
    x_ac_save_CPPFLAGS=$CPPFLAGS x_ac_save_LIBS=$LIBS
    CPPFLAGS="$CPPFLAGS $UCX_CFLAGS"
    LIBS="$UCX_LIBS $LIBS"
    AC_MSG_CHECKING([whether a UCX program links])
    AC_LINK_IFELSE([AC_LANG_PROGRAM([[
        #include <ucp/api/ucp.h>
        #if UCP_API_VERSION < UCP_VERSION (1, 13)
        #error too old
        #endif]],
      [[unsigned major, minor, release;
        ucp_get_version (&major, &minor, &release);
        return ucs_status_string (UCS_OK) == 0;]])],
      [x_ac_ucx_found=yes])
    AC_MSG_RESULT([$x_ac_ucx_found])
    CPPFLAGS=$x_ac_save_CPPFLAGS LIBS=$x_ac_save_LIBS
  ])
  AS_IF([test "$x_ac_ucx_found" = yes],
    [X_AC_WITH_ON([ucx], [$UCX_LIBS])
     AC_DEFINE([HAVE_UCX], [1], [The UCX communicator module is built])],
    [UCX_CFLAGS= UCX_LIBS=
     X_AC_WITH_OFF([ucx], [no usable ucp/api/ucp.h and libucp of UCX 1.13 or later],
       [libucx-dev])])
  AC_SUBST([UCX_CFLAGS])
  AC_SUBST([UCX_LIBS])
  AM_CONDITIONAL([WITH_UCX], [test "x$x_ac_have_ucx" = xyes])
])
