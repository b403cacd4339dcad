# SYNOPSIS
#
#   X_AC_SANITIZER
#
# DESCRIPTION
#
#   --enable-sanitizers compiles everything but the plugin with AddressSanitizer and
#   UndefinedBehaviorSanitizer, where the first finding ends the program.  The plugin is
#   left out because srun and slurmstepd, which load it, do not carry the runtime.
#   Substitutes SANITIZER_CFLAGS, for compiling and linking.
#
AC_DEFUN([X_AC_SANITIZER], [
  AC_ARG_ENABLE([sanitizers],
    [AS_HELP_STRING([--enable-sanitizers], [find memory errors and undefined behaviour at run time])],
    [], [enable_sanitizers=no])
  SANITIZER_CFLAGS=
  AS_IF([test "x$enable_sanitizers" = xyes], [
    SANITIZER_CFLAGS="-fsanitize=address,undefined -fno-sanitize-recover=undefined"
    SANITIZER_CFLAGS="$SANITIZER_CFLAGS -fno-omit-frame-pointer"
    x_ac_save_CFLAGS=$CFLAGS
    CFLAGS="$CFLAGS $SANITIZER_CFLAGS"
    AC_MSG_CHECKING([whether $CC links with the sanitizers])
    AC_LINK_IFELSE([AC_LANG_PROGRAM],
      [AC_MSG_RESULT([yes])],
      [AC_MSG_RESULT([no])
       AC_MSG_ERROR([--enable-sanitizers: $CC cannot link with $SANITIZER_CFLAGS])])
    CFLAGS=$x_ac_save_CFLAGS
    x_ac_summary_sanitizers="on   (not for the plugin)"
  ], [x_ac_summary_sanitizers="off"])
  AC_SUBST([SANITIZER_CFLAGS])
  AM_CONDITIONAL([WITH_SANITIZERS], [test "x$enable_sanitizers" = xyes])
])
