# SPDX-License-Identifier: GPL-3.0-or-later
# SF_NEED(NAME, DEBIAN-PACKAGE, TEST): remembers what is missing, so that one run names it all.
AC_DEFUN([SF_NEED], [AS_IF([$3], [], [sf_missing="$sf_missing
  $1 (Debian package $2)"])])

AC_DEFUN([SF_LIBRARIES], [
sf_missing=
PKG_CHECK_MODULES([CURL], [libcurl >= 7.80], [sf_have=yes], [sf_have=no])
SF_NEED([libcurl 7.80], [libcurl4-openssl-dev], [test $sf_have = yes])
PKG_CHECK_MODULES([MHD], [libmicrohttpd >= 0.9.70], [sf_have=yes], [sf_have=no])
SF_NEED([libmicrohttpd 0.9.70], [libmicrohttpd-dev], [test $sf_have = yes])
PKG_CHECK_MODULES([SQLITE], [sqlite3 >= 3.31], [sf_have=yes], [sf_have=no])
SF_NEED([SQLite 3.31], [libsqlite3-dev], [test $sf_have = yes])
PKG_CHECK_MODULES([CRYPTO], [libcrypto >= 3.0], [sf_have=yes], [sf_have=no])
SF_NEED([OpenSSL 3.0], [libssl-dev], [test $sf_have = yes])
AC_CHECK_HEADER([nlohmann/json.hpp], [sf_have=yes], [sf_have=no])
SF_NEED([nlohmann/json], [nlohmann-json3-dev], [test $sf_have = yes])
AC_CHECK_HEADER([toml++/toml.h], [sf_have=yes], [sf_have=no])
SF_NEED([toml++], [libtomlplusplus-dev], [test $sf_have = yes])
AC_CHECK_HEADER([CLI/CLI.hpp], [sf_have=yes], [sf_have=no])
SF_NEED([CLI11], [libcli11-dev], [test $sf_have = yes])
AC_CHECK_HEADER([glpk.h], [AC_CHECK_LIB([glpk], [glp_create_prob], [sf_have=yes], [sf_have=no])], [sf_have=no])
SF_NEED([GLPK], [libglpk-dev], [test $sf_have = yes])
AC_SUBST([GLPK_LIBS], [-lglpk])

# For `make bench` alone, which says what is missing when it is asked for.
PKG_CHECK_MODULES([BENCHMARK], [benchmark], [], [BENCHMARK_LIBS=-lbenchmark])

PKG_CHECK_MODULES([GTEST], [gtest_main >= 1.11], [sf_tests=yes], [sf_tests=no])
AM_CONDITIONAL([HAVE_GTEST], [test $sf_tests = yes])
AS_IF([test $sf_tests = yes], [sf_tests_summary=yes],
  [sf_tests_summary="no: GoogleTest is missing (Debian package libgtest-dev); make check runs scripts only"])
])

AC_DEFUN([SF_SLURM], [
AC_ARG_WITH([slurm], [AS_HELP_STRING([--with-slurm=DIR],
  [Slurm's prefix (default /usr); --without-slurm builds no plugin])], [], [with_slurm=yes])
AC_ARG_WITH([slurm-plugindir], [AS_HELP_STRING([--with-slurm-plugindir=DIR],
  [where the plugin goes (default: Slurm's own plugin directory)])], [], [with_slurm_plugindir=])
sf_slurm_summary=none sf_plugin_summary=none
AS_IF([test "x$sf_sanitizer" != xno && test "x$with_slurm" != xno],
  [AC_MSG_NOTICE([the plugin is left out of a sanitizer build: Slurm's programs are not built with it])
   with_slurm=no])
AS_IF([test "x$with_slurm" != xno], [
  AS_CASE([$with_slurm], [yes], [SLURM_CPPFLAGS=], [SLURM_CPPFLAGS=-I$with_slurm/include])
  sf_save_CPPFLAGS=$CPPFLAGS
  CPPFLAGS="$CPPFLAGS $SLURM_CPPFLAGS"
  AC_CHECK_HEADER([slurm/spank.h], [sf_have=yes], [sf_have=no], [[#include <stdint.h>]])
  SF_NEED([slurm/spank.h], [libslurm-dev; or configure --without-slurm], [test $sf_have = yes])
  AS_IF([test $sf_have = yes], [
    AC_MSG_CHECKING([Slurm's version])
    sf_version=`printf '#include <slurm/slurm_version.h>\nSLURM_VERSION_NUMBER\n' |
      $CXX -E -P $CPPFLAGS -x c++ - 2>/dev/null | $SED -n 's/^ *\(0x@<:@0-9a-f@:>@*\) *$/\1/p'`
    AS_IF([test -z "$sf_version"], [AC_MSG_ERROR([slurm/slurm_version.h gives no SLURM_VERSION_NUMBER])])
    sf_number=`printf '%d' "$sf_version"`
    SLURM_RELEASE=`printf '%d.%02d' $(($sf_number / 65536)) $(($sf_number / 256 % 256))`
    AC_MSG_RESULT([$SLURM_RELEASE])
    AC_DEFINE_UNQUOTED([SLURM_RELEASE], ["$SLURM_RELEASE"], [The Slurm release that the plugin is built for.])
    AS_IF([test -n "$with_slurm_plugindir"], [slurmplugindir=$with_slurm_plugindir], [
      AS_CASE([$with_slurm], [yes], [sf_prefix=/usr], [sf_prefix=$with_slurm])
      # The directory that already holds Slurm's plugins: auth_munge.so is in every installation.
      sf_found=`ls -d $sf_prefix/lib/*/slurm-wlm $sf_prefix/lib*/slurm $sf_prefix/lib/*/slurm 2>/dev/null | head -n 1`
      AS_IF([test -n "$sf_found"], [slurmplugindir=$sf_found], [slurmplugindir='${libdir}/slurm'])])
    sf_slurm_summary="$SLURM_RELEASE (another release needs its own build)"
    sf_plugin_summary=$slurmplugindir])
  CPPFLAGS=$sf_save_CPPFLAGS])
AC_SUBST([SLURM_CPPFLAGS])
AC_SUBST([SLURM_RELEASE])
AC_SUBST([slurmplugindir])
AM_CONDITIONAL([HAVE_SLURM], [test "x$with_slurm" != xno])
AS_IF([test -n "$sf_missing"], [AC_MSG_ERROR([missing:$sf_missing])])
])
