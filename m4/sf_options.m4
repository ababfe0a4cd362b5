# SPDX-License-Identifier: GPL-3.0-or-later
# SF_OPTIONS: --enable-werror, --enable-sanitizer=, warnings and hardening flags.
AC_DEFUN([SF_OPTIONS], [
AC_ARG_ENABLE([werror], [AS_HELP_STRING([--enable-werror], [treat compiler warnings as errors])],
  [], [enable_werror=no])
AC_ARG_ENABLE([sanitizer], [AS_HELP_STRING([--enable-sanitizer=LIST],
  [build with -fsanitize=LIST (address,undefined or thread); without the plugin])],
  [sf_sanitizer=$enableval], [sf_sanitizer=no])
AS_IF([test "x$sf_sanitizer" = xyes], [sf_sanitizer=address,undefined])

SF_CXXFLAGS="-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Wno-missing-field-initializers -Wnon-virtual-dtor"
AS_IF([test "x$enable_werror" = xyes], [SF_CXXFLAGS="$SF_CXXFLAGS -Werror"])
SF_CXXFLAGS="$SF_CXXFLAGS -fPIC -fstack-protector-strong"
SF_LDFLAGS="-Wl,-z,relro -Wl,-z,now"
AS_IF([test "x$sf_sanitizer" != xno],
  [SF_CXXFLAGS="$SF_CXXFLAGS -fsanitize=$sf_sanitizer -fno-omit-frame-pointer"
   SF_LDFLAGS="$SF_LDFLAGS -fsanitize=$sf_sanitizer"],
  [SF_CXXFLAGS="$SF_CXXFLAGS -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 -D_GLIBCXX_ASSERTIONS"])
AC_SUBST([SF_CXXFLAGS])
AC_SUBST([SF_LDFLAGS])

AC_ARG_WITH([systemdsystemunitdir], [AS_HELP_STRING([--with-systemdsystemunitdir=DIR], [where systemd units go])],
  [systemdsystemunitdir=$withval], [systemdsystemunitdir='${prefix}/lib/systemd/system'])
AC_SUBST([systemdsystemunitdir])
AC_SUBST([sysusersdir], ['${prefix}/lib/sysusers.d'])
AC_SUBST([spiderflowrundir], ['${runstatedir}/spiderflow'])
])
