# SYNOPSIS
#
#   X_AC_FRAMES
#
# DESCRIPTION
#
#   Sets and substitutes FRAME_CFLAGS, for what is installed: a warning about functions whose frame on
#   the stack is above 32 KiB, since threads of a program that uses the library may have small stacks.  With the sanitizers,
#   whose frames are larger, there is no warning.  Call it behind X_AC_SANITIZER.
#
AC_DEFUN([X_AC_FRAMES], [
  AS_IF([test "x$enable_sanitizers" != xyes], [
    x_ac_save_CFLAGS=$CFLAGS
    CFLAGS="$CFLAGS -Werror -Wframe-larger-than=32768"
    AC_MSG_CHECKING([whether $CC tells of large frames])
    AC_COMPILE_IFELSE([AC_LANG_PROGRAM],
      [AC_MSG_RESULT([yes])
       FRAME_CFLAGS="-Wframe-larger-than=32768"],
      [AC_MSG_RESULT([no])])
    CFLAGS=$x_ac_save_CFLAGS
  ])
  AC_SUBST([FRAME_CFLAGS])
])
