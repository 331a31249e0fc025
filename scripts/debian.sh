#!/bin/sh
# Installs programs where they are missing: Debian's packages, as root or through sudo. Without
# apt-get it says what to install.
#
#     scripts/debian.sh "run a real Cassandra" java:openjdk-17-jre-headless mvn:maven
set -eu

purpose=$1
shift
programs="" packages=""
for wanted in "$@"; do
    program=${wanted%%:*}
    command -v "$program" >/dev/null 2>&1 && continue
    programs="$programs $program"
    packages="$packages ${wanted#*:}"
done
[ -n "$packages" ] || exit 0

if ! command -v apt-get >/dev/null 2>&1; then
    echo "The tests $purpose, and there is no apt-get here: install$programs another way," >&2
    echo "so that PATH has them." >&2
    exit 1
fi
as_root=""
if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null 2>&1 || {
        echo "The tests $purpose. Run as root: apt-get install$packages" >&2
        exit 1
    }
    as_root=sudo
fi
echo "installing$packages: the tests $purpose" >&2
$as_root apt-get update -qq
# shellcheck disable=SC2086  # The names are words of their own.
DEBIAN_FRONTEND=noninteractive $as_root apt-get install --yes -qq --no-install-recommends $packages >/dev/null
