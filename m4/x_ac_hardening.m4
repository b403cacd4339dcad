# SYNOPSIS
#
#   X_AC_HARDENING
#
# DESCRIPTION
#
#   Flags for the plugin, which root's daemons load.  Each is kept if the compiler takes
#   it with the user's CFLAGS and no warning (_FORTIFY_SOURCE needs optimisation).
#   Substitutes HARDENING_CFLAGS and HARDENING_LDFLAGS.
#
AC_DEFUN([X_AC_HARDENING], [
  HARDENING_CFLAGS= HARDENING_LDFLAGS=
  x_ac_save_CFLAGS=$CFLAGS x_ac_save_LDFLAGS=$LDFLAGS
  for x_ac_flag in -fstack-protector-strong "-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2"; do
    AC_MSG_CHECKING([whether $CC accepts $x_ac_flag])
    CFLAGS="$x_ac_save_CFLAGS -Werror $x_ac_flag"
    AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[#include <string.h>]])],
      [AC_MSG_RESULT([yes])
       HARDENING_CFLAGS="$HARDENING_CFLAGS $x_ac_flag"], [AC_MSG_RESULT([no])])
  done
  CFLAGS=$x_ac_save_CFLAGS
  for x_ac_flag in -Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack; do
    AC_MSG_CHECKING([whether $CC links with $x_ac_flag])
    LDFLAGS="$x_ac_save_LDFLAGS $x_ac_flag"
    AC_LINK_IFELSE([AC_LANG_PROGRAM],
      [AC_MSG_RESULT([yes])
       HARDENING_LDFLAGS="$HARDENING_LDFLAGS $x_ac_flag"], [AC_MSG_RESULT([no])])
  done
  LDFLAGS=$x_ac_save_LDFLAGS
  AC_SUBST([HARDENING_CFLAGS])
  AC_SUBST([HARDENING_LDFLAGS])
])
