# SYNOPSIS
#
#   X_AC_PCRE2
#
# DESCRIPTION
#
#   Look for PCRE2 (8-bit, 10.30 or later), which cuts a text into words for the tokenizer
#   GPT2BPETokenizer; without it that tokenizer is refused.  Compiles and links a probe.
#   Sets the conditional WITH_PCRE2, defines HAVE_PCRE2, and substitutes PCRE2_CFLAGS and
#   PCRE2_LIBS.
#
AC_DEFUN([X_AC_PCRE2], [
  X_AC_WITH([pcre2], [the tokenizer GPT2BPETokenizer], [include/pcre2.h])
  x_ac_pcre2_found=no
  PCRE2_CFLAGS= PCRE2_LIBS=
  AS_IF([test "x$x_ac_want_pcre2" != xno], [
    PCRE2_LIBS=-lpcre2-8
    AS_IF([test -n "$x_ac_dir_pcre2"],
      [PCRE2_CFLAGS="-I$x_ac_dir_pcre2/include"
       PCRE2_LIBS="-L$x_ac_dir_pcre2/lib -Wl,-rpath,$x_ac_dir_pcre2/lib -lpcre2-8"])
    x_ac_save_CPPFLAGS=$CPPFLAGS x_ac_save_LIBS=$LIBS
    CPPFLAGS="$CPPFLAGS $PCRE2_CFLAGS"
    LIBS="$PCRE2_LIBS $LIBS"
    AC_MSG_CHECKING([whether a PCRE2 program links])
    AC_LINK_IFELSE([AC_LANG_PROGRAM([[
        #define PCRE2_CODE_UNIT_WIDTH 8
        #include <pcre2.h>
        #if PCRE2_MAJOR < 10 || (PCRE2_MAJOR == 10 && PCRE2_MINOR < 30)
        #error too old
        #endif]],
      [[uint32_t unicode = 0;
        return pcre2_config (PCRE2_CONFIG_UNICODE, &unicode) < 0;]])],
      [x_ac_pcre2_found=yes])
    AC_MSG_RESULT([$x_ac_pcre2_found])
    CPPFLAGS=$x_ac_save_CPPFLAGS LIBS=$x_ac_save_LIBS
  ])
  AS_IF([test "$x_ac_pcre2_found" = yes],
    [X_AC_WITH_ON([pcre2], [$PCRE2_LIBS])
     AC_DEFINE([HAVE_PCRE2], [1], [PCRE2 cuts text into words])],
    [PCRE2_CFLAGS= PCRE2_LIBS=
     X_AC_WITH_OFF([pcre2], [no usable pcre2.h and libpcre2-8, no GPT2BPETokenizer],
       [libpcre2-dev])])
  AC_SUBST([PCRE2_CFLAGS])
  AC_SUBST([PCRE2_LIBS])
  AM_CONDITIONAL([WITH_PCRE2], [test "x$x_ac_have_pcre2" = xyes])
])
