# SYNOPSIS
#
#   X_AC_SLURM
#
# DESCRIPTION
#
#   Look for Slurm's plugin headers (only slurm/spank.h and slurm/slurm_version.h are
#   used; nothing is linked, since srun, sbatch and slurmstepd provide the symbols).
#   Without --with-slurm=DIR they are looked for beside the srun that is first in PATH,
#   then where the compiler looks.
#   Sets the conditional WITH_SLURM, substitutes SLURM_CPPFLAGS and plugindir, and
#   defines MG_SLURM_VERSION, the text of the version that the plugin will accept.
#   A plugin works only with the major release (yy.mm) of the headers it was built with.
#
AC_DEFUN([X_AC_SLURM], [
  X_AC_WITH([slurm], [build the SPANK plugin],
    [include/slurm/spank.h])
  AC_ARG_WITH([plugindir],
    [AS_HELP_STRING([--with-plugindir=DIR], [install megatron.so there @<:@LIBDIR/slurm@:>@])],
    [AS_CASE([$withval], [yes|no], [AC_MSG_ERROR([--with-plugindir wants a directory])])],
    [with_plugindir='${libdir}/slurm'])
  AC_SUBST([plugindir], [$with_plugindir])
  AS_IF([test "x$x_ac_want_slurm" != xno && test -z "$x_ac_dir_slurm"], [
    x_ac_srun=`command -v srun 2>/dev/null`
    x_ac_srun=`readlink -f "$x_ac_srun" 2>/dev/null`
    AS_CASE([$x_ac_srun],
      [/usr/bin/srun], [],
      [*/bin/srun], [
        x_ac_prefix=`dirname "$x_ac_srun"`
        x_ac_prefix=`dirname "$x_ac_prefix"`
        AS_IF([test -r "$x_ac_prefix/include/slurm/spank.h"], [x_ac_dir_slurm=$x_ac_prefix])
      ])
  ])
  SLURM_CPPFLAGS=
  AS_IF([test -n "$x_ac_dir_slurm"], [SLURM_CPPFLAGS="-I$x_ac_dir_slurm/include"])
  AC_SUBST([SLURM_CPPFLAGS])
  x_ac_slurm_version=none
  AS_IF([test "x$x_ac_want_slurm" != xno], [
    x_ac_save_CPPFLAGS=$CPPFLAGS
    CPPFLAGS="$CPPFLAGS $SLURM_CPPFLAGS"
    AC_COMPUTE_INT([x_ac_slurm_number], [SLURM_VERSION_NUMBER],
      [#include <stddef.h>
       #include <stdint.h>
       #include <slurm/spank.h>
       #include <slurm/slurm_version.h>], [x_ac_slurm_number=0])
    CPPFLAGS=$x_ac_save_CPPFLAGS
    AS_IF([test "$x_ac_slurm_number" -gt 0], [
      x_ac_slurm_version=`printf '%d.%02d.%d' \
        $((x_ac_slurm_number / 65536)) $((x_ac_slurm_number / 256 % 256)) \
        $((x_ac_slurm_number % 256))`
    ])
  ])
  AS_IF([test "x$x_ac_slurm_version" = xnone],
    [X_AC_WITH_OFF([slurm], [slurm/spank.h was not found], [libslurm-dev])],
    [X_AC_WITH_ON([slurm], [headers of Slurm $x_ac_slurm_version])])
  AC_DEFINE_UNQUOTED([MG_SLURM_VERSION], ["$x_ac_slurm_version"],
    [Version of the Slurm headers of this build, or "none"])
  AM_CONDITIONAL([WITH_SLURM], [test "x$x_ac_have_slurm" = xyes])
])
