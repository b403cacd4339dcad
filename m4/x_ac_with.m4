# SYNOPSIS
#
#   X_AC_WITH(NAME, WHAT, FILE...)
#   X_AC_WITH_OFF(NAME, REASON, PACKAGE)
#   X_AC_WITH_ON(NAME, DETAIL)
#
# DESCRIPTION
#
#   The one shape of all optional dependencies.  X_AC_WITH declares
#   --with-NAME=yes|check|no|DIR (WHAT ends the help line) and sets the shell variables
#   x_ac_want_NAME to yes, check or no and x_ac_dir_NAME to DIR or nothing.  A DIR means
#   yes, and must hold one of the FILEs (space-separated), so that a mistyped one is not
#   passed over for what the system has.  Each must end in one call of X_AC_WITH_OFF or X_AC_WITH_ON on every path:
#   X_AC_WITH_OFF stops configure where the user asked for NAME, naming the Debian
#   PACKAGE, and otherwise keeps REASON for the summary.  Both set x_ac_have_NAME (yes
#   or no) and x_ac_summary_NAME.  In these variables a "-" of NAME is a "_".
#
AC_DEFUN([X_AC_WITH], [
  m4_pushdef([X_AC_NAME], m4_translit([$1], [-], [_]))
  AC_ARG_WITH([$1],
    [AS_HELP_STRING([--with-$1=yes|check|no|DIR], [$2 @<:@check@:>@])],
    [], [with_[]X_AC_NAME=check])
  x_ac_dir_[]X_AC_NAME=
  AS_CASE([$with_[]X_AC_NAME],
    [yes|check|no], [x_ac_want_[]X_AC_NAME=$with_[]X_AC_NAME],
    [/*], [
      x_ac_want_[]X_AC_NAME=yes
      for x_ac_file in $3; do
        AS_IF([test -r "$with_[]X_AC_NAME/$x_ac_file"], [x_ac_dir_[]X_AC_NAME=$with_[]X_AC_NAME])
      done
      AS_IF([test -z "$x_ac_dir_[]X_AC_NAME"],
        [AC_MSG_ERROR([--with-$1=$with_[]X_AC_NAME: that directory has no $3])])],
    [AC_MSG_ERROR([--with-$1=$with_[]X_AC_NAME: want yes, check, no or an absolute directory])])
  m4_popdef([X_AC_NAME])
])

AC_DEFUN([X_AC_WITH_OFF], [
  m4_pushdef([X_AC_NAME], m4_translit([$1], [-], [_]))
  AS_IF([test "x$x_ac_want_[]X_AC_NAME" = xyes],
    [AC_MSG_ERROR([--with-$1: $2; install it (Debian: apt-get install $3) or say --without-$1])])
  x_ac_have_[]X_AC_NAME=no
  AS_IF([test "x$x_ac_want_[]X_AC_NAME" = xno],
    [x_ac_summary_[]X_AC_NAME="off  (--without-$1)"],
    [x_ac_summary_[]X_AC_NAME="off  ($2; Debian: $3)"])
  m4_popdef([X_AC_NAME])
])

AC_DEFUN([X_AC_WITH_ON], [
  m4_pushdef([X_AC_NAME], m4_translit([$1], [-], [_]))
  x_ac_have_[]X_AC_NAME=yes
  x_ac_summary_[]X_AC_NAME=`echo $2` # one blank between words
  x_ac_summary_[]X_AC_NAME="on   ($x_ac_summary_[]X_AC_NAME)"
  m4_popdef([X_AC_NAME])
])
