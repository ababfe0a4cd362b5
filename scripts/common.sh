# SPDX-License-Identifier: GPL-3.0-or-later
# Shared by ./quickstart and ./check: the packages that are needed, and a build of this tree. Sourced, not run.

fail() {
    echo "$program: $*" >&2
    exit 1
}

build_packages="autoconf automake autoconf-archive g++ make pkg-config nlohmann-json3-dev libtomlplusplus-dev libcli11-dev
    libmicrohttpd-dev libsqlite3-dev libcurl4-openssl-dev libssl-dev libglpk-dev libslurm-dev"
site_packages="slurmctld slurmd slurmrestd slurm-client slurm-wlm-basic-plugins slurm-wlm-jwt-plugin munge iproute2
    python3 python3-torch python3-numpy"
test_packages="libgtest-dev mandoc libfaketime"

# need PACKAGE...: installs what is missing; Debian only.
need() {
    missing=
    for package in "$@"; do
        dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing="$missing $package"
    done
    [ -n "$missing" ] || return 0
    command -v apt-get >/dev/null || fail "needs the Debian packages$missing"
    [ "$(id -u)" = 0 ] || fail "run me as root once, or install these packages yourself:$missing"
    echo "installing:$missing"
    # Debian may start munge; Slurm's daemons need a configuration first. The tests bring daemons of their own.
    log=$(mktemp)
    { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $missing; } \
        >"$log" 2>&1 || { tail -n 20 "$log" >&2; rm -f "$log"; fail "apt-get could not install:$missing"; }
    rm -f "$log"
}

# build FOLDER CONFIGURE-ARGUMENT...: configures (once for the same arguments) and makes in FOLDER; quiet unless it fails.
build() {
    folder=$1
    shift
    mkdir -p "$folder"
    log=$folder/build.log
    if [ ! -x "$top/configure" ] || [ -n "$(find "$top/configure.ac" "$top/m4" -newer "$top/configure" 2>/dev/null)" ]; then
        (cd "$top" && autoreconf -i) >"$log" 2>&1 || { tail -n 30 "$log" >&2; fail "autoreconf failed; see $log"; }
    fi
    if [ "$(cat "$folder/arguments" 2>/dev/null)" != "$*" ] || [ "$top/configure" -nt "$folder/config.status" ]; then
        (cd "$folder" && "$top/configure" "$@") >>"$log" 2>&1 || { tail -n 30 "$log" >&2; fail "configure failed; see $log"; }
        echo "$*" >"$folder/arguments"
    fi
    make -C "$folder" -s -j "$(nproc)" >>"$log" 2>&1 || { grep -E 'error|Error' "$log" | head -n 30 >&2; fail "make failed; see $log"; }
}
