# SYNOPSIS
#
#   X_AC_FRAMES
#
# DESCRIPTION
#
#   Adds to WARNING_CFLAGS a warning about functions whose frame on the stack is above 32 KiB,
#   since threads of a program that uses the library may have small stacks.
#   --enable-small-frames makes it an error, for the project's own checks.  With the sanitizers,
#   whose frames are larger, there is no warning.  Call it behind X_AC_SANITIZER.
#
AC_DEFUN([X_AC_FRAMES], [
  AC_ARG_ENABLE([small-frames],
    [AS_HELP_STRING([--enable-small-frames],
      [a frame above 32 KiB is an error and no warning])],
    [], [enable_small_frames=no])
  x_ac_flag="-Wframe-larger-than=32768"
  AS_IF([test "x$enable_small_frames" = xyes],
    [x_ac_flag="-Werror=frame-larger-than=32768"])
  AS_IF([test "x$enable_sanitizers" != xyes], [
    x_ac_save_CFLAGS=$CFLAGS
    CFLAGS="$CFLAGS -Werror $x_ac_flag"
    AC_MSG_CHECKING([whether $CC accepts $x_ac_flag])
    AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[int f (void);]], [[return 0;]])],
      [AC_MSG_RESULT([yes])
       WARNING_CFLAGS="$WARNING_CFLAGS $x_ac_flag"],
      [AC_MSG_RESULT([no])])
    CFLAGS=$x_ac_save_CFLAGS
  ])
])
