# SYNOPSIS
#
#   X_AC_UTF8PROC
#
# DESCRIPTION
#
#   Look for utf8proc (2.4 or later), which brings a text to a normal form of Unicode for
#   the tokenizer HuggingFaceTokenizer; without it a tokenizer.json that wants one is
#   refused.  Compiles and links a probe.  Sets the conditional WITH_UTF8PROC, defines
#   HAVE_UTF8PROC, and substitutes UTF8PROC_CFLAGS and UTF8PROC_LIBS.
#
AC_DEFUN([X_AC_UTF8PROC], [
  X_AC_WITH([utf8proc], [normal forms of HuggingFaceTokenizer], [include/utf8proc.h])
  x_ac_utf8proc_found=no
  UTF8PROC_CFLAGS= UTF8PROC_LIBS=
  AS_IF([test "x$x_ac_want_utf8proc" != xno], [
    UTF8PROC_LIBS=-lutf8proc
    AS_IF([test -n "$x_ac_dir_utf8proc"],
      [UTF8PROC_CFLAGS="-I$x_ac_dir_utf8proc/include"
       UTF8PROC_LIBS="-L$x_ac_dir_utf8proc/lib -Wl,-rpath,$x_ac_dir_utf8proc/lib -lutf8proc"])
    x_ac_save_CPPFLAGS=$CPPFLAGS x_ac_save_LIBS=$LIBS
    CPPFLAGS="$CPPFLAGS $UTF8PROC_CFLAGS"
    LIBS="$UTF8PROC_LIBS $LIBS"
    AC_MSG_CHECKING([whether a utf8proc program links])
    AC_LINK_IFELSE([AC_LANG_PROGRAM([[
        #include <utf8proc.h>
        #if UTF8PROC_VERSION_MAJOR < 2 \
            || (UTF8PROC_VERSION_MAJOR == 2 && UTF8PROC_VERSION_MINOR < 4)
        #error too old
        #endif]],
      [[return utf8proc_tolower ('A') != 'a';]])],
      [x_ac_utf8proc_found=yes])
    AC_MSG_RESULT([$x_ac_utf8proc_found])
    CPPFLAGS=$x_ac_save_CPPFLAGS LIBS=$x_ac_save_LIBS
  ])
  AS_IF([test "$x_ac_utf8proc_found" = yes],
    [X_AC_WITH_ON([utf8proc], [$UTF8PROC_LIBS])
     AC_DEFINE([HAVE_UTF8PROC], [1], [utf8proc brings a text to a normal form])],
    [UTF8PROC_CFLAGS= UTF8PROC_LIBS=
     X_AC_WITH_OFF([utf8proc], [no usable utf8proc.h and libutf8proc, no Unicode normal forms],
       [libutf8proc-dev])])
  AC_SUBST([UTF8PROC_CFLAGS])
  AC_SUBST([UTF8PROC_LIBS])
  AM_CONDITIONAL([WITH_UTF8PROC], [test "x$x_ac_have_utf8proc" = xyes])
])
