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
#   or no) and x_ac_summary_NAME.
#
AC_DEFUN([X_AC_WITH], [
  AC_ARG_WITH([$1],
    [AS_HELP_STRING([--with-$1=yes|check|no|DIR], [$2 @<:@check@:>@])],
    [], [with_$1=check])
  x_ac_dir_$1=
  AS_CASE([$with_$1],
    [yes|check|no], [x_ac_want_$1=$with_$1],
    [/*], [
      x_ac_want_$1=yes
      for x_ac_file in $3; do
        AS_IF([test -r "$with_$1/$x_ac_file"], [x_ac_dir_$1=$with_$1])
      done
      AS_IF([test -z "$x_ac_dir_$1"],
        [AC_MSG_ERROR([--with-$1=$with_$1: that directory has no $3])])],
    [AC_MSG_ERROR([--with-$1=$with_$1: want yes, check, no or an absolute directory])])
])

AC_DEFUN([X_AC_WITH_OFF], [
  AS_IF([test "x$x_ac_want_$1" = xyes],
    [AC_MSG_ERROR([--with-$1: $2; install it (Debian: apt-get install $3) or say --without-$1])])
  x_ac_have_$1=no
  AS_IF([test "x$x_ac_want_$1" = xno],
    [x_ac_summary_$1="off  (--without-$1)"],
    [x_ac_summary_$1="off  ($2; Debian: $3)"])
])

AC_DEFUN([X_AC_WITH_ON], [
  x_ac_have_$1=yes
  x_ac_summary_$1=`echo $2` # one blank between words
  x_ac_summary_$1="on   ($x_ac_summary_$1)"
])
