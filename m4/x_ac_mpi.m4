# SYNOPSIS
#
#   X_AC_MPI
#
# DESCRIPTION
#
#   Find how to compile and link against MPI without making its wrapper the compiler:
#   only one loadable module uses MPI.  Asked in this order: DIR/bin/mpicc or DIR as
#   include and lib (--with-mpi=DIR), pkg-config's ompi-c or mpich, mpicc on the path.
#   Compiles and links a probe.  Sets the conditional WITH_MPI, defines HAVE_MPI, and
#   substitutes MPI_CFLAGS, MPI_LIBS and MPIRUN (for the tests, may be empty).
#
AC_DEFUN([X_AC_MPI], [
  X_AC_WITH([mpi], [build the MPI communicator module],
    [bin/mpicc include/mpi.h])
  AC_ARG_VAR([MPICC], [MPI compiler wrapper that is asked for flags])
  x_ac_mpi_found=no
  MPI_CFLAGS= MPI_LIBS=
  AS_IF([test "x$x_ac_want_mpi" != xno], [
    AS_IF([test -n "$x_ac_dir_mpi"],
      [AS_IF([test -z "$MPICC" && test -x "$x_ac_dir_mpi/bin/mpicc"],
         [MPICC=$x_ac_dir_mpi/bin/mpicc])
       AS_IF([test -z "$MPICC"],
         [MPI_CFLAGS="-I$x_ac_dir_mpi/include"
          MPI_LIBS="-L$x_ac_dir_mpi/lib -Wl,-rpath,$x_ac_dir_mpi/lib -lmpi"])])
    AS_IF([test -z "$MPICC$MPI_LIBS"],
      [PKG_CHECK_MODULES([MPI], [ompi-c], [],
        [PKG_CHECK_MODULES([MPI], [mpich], [], [MPI_CFLAGS= MPI_LIBS=])])])
    AS_IF([test -z "$MPI_LIBS"], [
      AC_PATH_PROG([MPICC], [mpicc])
      AS_IF([test -n "$MPICC"],
        [# Open MPI says --showme; MPICH shows whole commands, less the compiler's name
         MPI_CFLAGS=`"$MPICC" --showme:compile 2>/dev/null` &&
         MPI_LIBS=`"$MPICC" --showme:link 2>/dev/null` || {
           MPI_CFLAGS=`"$MPICC" -compile-info 2>/dev/null | sed 's/^@<:@^ @:>@* *//; s/ -c\b//'`
           MPI_LIBS=`"$MPICC" -link-info 2>/dev/null | sed 's/^@<:@^ @:>@* *//'`
         }])
    ])
    x_ac_save_CPPFLAGS=$CPPFLAGS x_ac_save_LIBS=$LIBS
    CPPFLAGS="$CPPFLAGS $MPI_CFLAGS"
    LIBS="$MPI_LIBS $LIBS"
    AC_MSG_CHECKING([whether an MPI program links])
    AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <mpi.h>]],
      [[int level; return MPI_Init_thread (0, 0, MPI_THREAD_SERIALIZED, &level);]])],
      [x_ac_mpi_found=yes])
    AC_MSG_RESULT([$x_ac_mpi_found])
    CPPFLAGS=$x_ac_save_CPPFLAGS LIBS=$x_ac_save_LIBS
    AC_PATH_PROG([MPIRUN], [mpirun], [],
      [$x_ac_dir_mpi${x_ac_dir_mpi:+/bin:}$PATH])
  ])
  AS_IF([test "$x_ac_mpi_found" = yes],
    [X_AC_WITH_ON([mpi], [$MPI_LIBS])
     AC_DEFINE([HAVE_MPI], [1], [The MPI communicator module is built])],
    [X_AC_WITH_OFF([mpi], [no usable mpi.h and MPI library], [libopenmpi-dev])])
  AC_SUBST([MPI_CFLAGS])
  AC_SUBST([MPI_LIBS])
  AC_SUBST([MPIRUN])
  AM_CONDITIONAL([WITH_MPI], [test "x$x_ac_have_mpi" = xyes])
])
