# SYNOPSIS
#
#   X_AC_REQUIRE(PREFIX, MODULE, PACKAGE)
#
# DESCRIPTION
#
#   A library that the build cannot do without, by pkg-config: sets PREFIX_CFLAGS and
#   PREFIX_LIBS, or stops and names the Debian PACKAGE to install.
#
AC_DEFUN([X_AC_REQUIRE], [
  PKG_CHECK_MODULES([$1], [$2], [],
    [AC_MSG_ERROR([the library $2 is needed; install it (Debian: apt-get install $3)])])
])
