# SYNOPSIS
#
#   X_AC_OPENMP
#
# DESCRIPTION
#
#   AC_OPENMP (which gives --disable-openmp and OPENMP_CFLAGS) with a line for the
#   summary in x_ac_summary_openmp.  Without OpenMP, OPENMP_CFLAGS keeps the compiler
#   from warning of the pragmas.
#
AC_DEFUN([X_AC_OPENMP], [
  AC_OPENMP
  AS_CASE(["x$enable_openmp:$ac_cv_prog_c_openmp"],
    [xno:*], [x_ac_summary_openmp="off  (--disable-openmp)"],
    [*:unsupported], [x_ac_summary_openmp="off  ($CC does not support it)"],
    [x_ac_summary_openmp="on   (${OPENMP_CFLAGS:-built in})"])
  AS_CASE(["$x_ac_summary_openmp"], [off*], [OPENMP_CFLAGS=-Wno-unknown-pragmas])
])
