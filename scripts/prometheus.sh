#!/bin/sh
# Unpacks Debian's Prometheus and promtool into a folder; starts no service, and needs no root.
#
#     scripts/prometheus.sh FOLDER     FOLDER/prometheus and FOLDER/promtool
set -eu
folder=$1
mkdir -p "$folder"
if command -v prometheus > /dev/null && command -v promtool > /dev/null; then
    ln -sf "$(command -v prometheus)" "$(command -v promtool)" "$folder"
    exit
fi
command -v apt-get > /dev/null && command -v dpkg-deb > /dev/null || {
    echo "these tests need prometheus and promtool; install them, there is no apt-get here" >&2
    exit 1
}
unpacked=$(mktemp -d)
trap 'rm -rf "$unpacked"' EXIT
(
    cd "$unpacked"
    # The lists of packages may be old, or not there yet.
    apt-get -o APT::Sandbox::User=root download --quiet --quiet prometheus || { apt-get update --quiet --quiet && apt-get -o APT::Sandbox::User=root download --quiet --quiet prometheus; }
    dpkg-deb --extract prometheus_*.deb .
)
cp "$unpacked"/usr/bin/prometheus "$unpacked"/usr/bin/promtool "$folder"
