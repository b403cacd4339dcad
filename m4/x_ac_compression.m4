# SYNOPSIS
#
#   X_AC_COMPRESSION
#
# DESCRIPTION
#
#   Look with pkg-config for the libraries that decompress the input of "megatron data":
#   zlib (gzip), bzip2, liblzma (xz) and libzstd (zstd); bzip2, which has no .pc file on
#   every system, also by a probe.  Each is optional by itself: a file that needs a missing
#   one is refused by name.  Sets the conditionals WITH_ZLIB, WITH_BZIP2, WITH_LZMA and
#   WITH_ZSTD, defines HAVE_ZLIB, HAVE_BZIP2, HAVE_LZMA and HAVE_ZSTD, and substitutes
#   COMPRESSION_CFLAGS and COMPRESSION_LIBS.
#
AC_DEFUN([X_AC_COMPRESSION], [
  COMPRESSION_CFLAGS= COMPRESSION_LIBS=
  X_AC_COMPRESSION_ONE([zlib], [ZLIB], [zlib], [zlib.h], [z], [zlibVersion], [zlib1g-dev])
  X_AC_COMPRESSION_ONE([bzip2], [BZIP2], [bzip2], [bzlib.h], [bz2], [BZ2_bzlibVersion], [libbz2-dev])
  X_AC_COMPRESSION_ONE([lzma], [LZMA], [liblzma], [lzma.h], [lzma], [lzma_version_string], [liblzma-dev])
  X_AC_COMPRESSION_ONE([zstd], [ZSTD], [libzstd], [zstd.h], [zstd], [ZSTD_versionNumber], [libzstd-dev])
  AC_SUBST([COMPRESSION_CFLAGS])
  AC_SUBST([COMPRESSION_LIBS])
])

# X_AC_COMPRESSION_ONE(NAME, VARIABLE, PKG-CONFIG, HEADER, LIBRARY, FUNCTION, PACKAGE)
AC_DEFUN([X_AC_COMPRESSION_ONE], [
  X_AC_WITH([$1], [$1 for compressed input], [include/$4])
  $2_CFLAGS= $2_LIBS=-l$5
  AS_IF([test -n "$x_ac_dir_$1"],
    [$2_CFLAGS="-I$x_ac_dir_$1/include"
     $2_LIBS="-L$x_ac_dir_$1/lib -Wl,-rpath,$x_ac_dir_$1/lib -l$5"],
    [$PKG_CONFIG --exists $3],
    [$2_CFLAGS=`$PKG_CONFIG --cflags $3` $2_LIBS=`$PKG_CONFIG --libs $3`])
  x_ac_compression_found=no
  AS_IF([test "x$x_ac_want_$1" != xno], [
    x_ac_save_CPPFLAGS=$CPPFLAGS x_ac_save_LIBS=$LIBS
    CPPFLAGS="$CPPFLAGS $$2_CFLAGS"
    LIBS="$$2_LIBS $LIBS"
    AC_MSG_CHECKING([whether a $1 program links])
    AC_LINK_IFELSE([AC_LANG_PROGRAM([[
        #include <stdio.h>
        #include <$4>]], [[return !$6 ();]])],
      [x_ac_compression_found=yes])
    AC_MSG_RESULT([$x_ac_compression_found])
    CPPFLAGS=$x_ac_save_CPPFLAGS LIBS=$x_ac_save_LIBS
  ])
  AS_IF([test "$x_ac_compression_found" = yes],
    [X_AC_WITH_ON([$1], [$$2_LIBS])
     COMPRESSION_CFLAGS="$COMPRESSION_CFLAGS $$2_CFLAGS"
     COMPRESSION_LIBS="$COMPRESSION_LIBS $$2_LIBS"
     AC_DEFINE([HAVE_$2], [1], [$1 decompresses input])],
    [X_AC_WITH_OFF([$1], [no usable $4 and lib$5, no such compressed input], [$7])])
  AM_CONDITIONAL([WITH_$2], [test "x$x_ac_have_$1" = xyes])
])
