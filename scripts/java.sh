#!/bin/sh
# Installs Java 17 and Maven where they are missing: tests run a real Cassandra with them.
# Uses Debian's packages, as root or through sudo. Without apt-get it says what to install.
set -eu

missing=""
command -v java >/dev/null 2>&1 || missing="$missing openjdk-17-jre-headless"
command -v mvn >/dev/null 2>&1 || missing="$missing maven"
[ -n "$missing" ] || exit 0

if ! command -v apt-get >/dev/null 2>&1; then
    echo "The tests run a real Cassandra, which needs Java 17 and Maven. There is no apt-get here:" >&2
    echo "install both another way, so that \`java\` and \`mvn\` are in PATH." >&2
    exit 1
fi
as_root=""
if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null 2>&1 || {
        echo "The tests need Java 17 and Maven. Run as root: apt-get install$missing" >&2
        exit 1
    }
    as_root=sudo
fi
echo "installing$missing for the tests' Cassandra" >&2
$as_root apt-get update -qq
# shellcheck disable=SC2086  # The names are words of their own.
DEBIAN_FRONTEND=noninteractive $as_root apt-get install --yes -qq --no-install-recommends $missing >/dev/null
