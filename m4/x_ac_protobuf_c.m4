# SYNOPSIS
#
#   X_AC_PROTOBUF_C
#
# DESCRIPTION
#
#   Look for protobuf-c (1.3 or later) and its compiler, with which training writes event
#   files for TensorBoard; without them --tensorboard-dir is refused.  Compiles a message with
#   protoc-c, or with protoc and its plugin protoc-gen-c, and compiles and links what comes
#   of it.  Sets the conditional WITH_PROTOBUF_C, defines HAVE_PROTOBUF_C, and substitutes
#   PROTOC_C (the compiler), PROTOBUF_C_CFLAGS and PROTOBUF_C_LIBS.
#
AC_DEFUN([X_AC_PROTOBUF_C], [
  X_AC_WITH([protobuf-c], [event files for TensorBoard],
    [include/protobuf-c/protobuf-c.h])
  x_ac_protobuf_c_found=no
  PROTOBUF_C_CFLAGS= PROTOBUF_C_LIBS=
  AS_IF([test "x$x_ac_want_protobuf_c" != xno], [
    PROTOBUF_C_LIBS=-lprotobuf-c
    x_ac_path=$PATH
    AS_IF([test -n "$x_ac_dir_protobuf_c"],
      [PROTOBUF_C_CFLAGS="-I$x_ac_dir_protobuf_c/include"
       PROTOBUF_C_LIBS="-L$x_ac_dir_protobuf_c/lib -Wl,-rpath,$x_ac_dir_protobuf_c/lib -lprotobuf-c"
       x_ac_path=$x_ac_dir_protobuf_c/bin$PATH_SEPARATOR$PATH])
    AC_PATH_PROGS([PROTOC_C], [protoc-c protoc], [], [$x_ac_path])
    x_ac_save_CPPFLAGS=$CPPFLAGS x_ac_save_LIBS=$LIBS
    CPPFLAGS="$CPPFLAGS -I. $PROTOBUF_C_CFLAGS"
    LIBS="$PROTOBUF_C_LIBS $LIBS"
    AC_MSG_CHECKING([whether a protobuf-c message compiles and links])
    cat >conftest_pb.proto <<'EOF'
syntax = "proto3";
message Probe { oneof value { float number = 1; string text = 2; } }
EOF
    AS_IF([test -n "$PROTOC_C" && "$PROTOC_C" --c_out=. conftest_pb.proto >&AS_MESSAGE_LOG_FD 2>&1],
      [AC_LINK_IFELSE([AC_LANG_PROGRAM([[
          #include "conftest_pb.pb-c.h"]],
        [[uint8_t bytes[16];
          Probe probe;
          probe.base.descriptor = 0;
          return protobuf_c_message_pack (&probe.base, bytes) > 16
                 || PROBE__VALUE_NUMBER != 1;]])],
        [x_ac_protobuf_c_found=yes])])
    rm -f conftest_pb.proto conftest_pb.pb-c.c conftest_pb.pb-c.h
    AC_MSG_RESULT([$x_ac_protobuf_c_found])
    CPPFLAGS=$x_ac_save_CPPFLAGS LIBS=$x_ac_save_LIBS
  ])
  AS_IF([test "$x_ac_protobuf_c_found" = yes],
    [X_AC_WITH_ON([protobuf-c], [$PROTOBUF_C_LIBS, $PROTOC_C])
     AC_DEFINE([HAVE_PROTOBUF_C], [1], [protobuf-c packs events for TensorBoard])],
    [PROTOBUF_C_CFLAGS= PROTOBUF_C_LIBS=
     X_AC_WITH_OFF([protobuf-c], [no usable protobuf-c.h, libprotobuf-c and protoc-c, no --tensorboard-dir],
       [libprotobuf-c-dev protobuf-c-compiler])])
  AC_SUBST([PROTOBUF_C_CFLAGS])
  AC_SUBST([PROTOBUF_C_LIBS])
  AM_CONDITIONAL([WITH_PROTOBUF_C], [test "x$x_ac_have_protobuf_c" = xyes])
])
