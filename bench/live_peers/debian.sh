#!/bin/sh
# Installs Debian's servers of PostgreSQL and Redis where they are missing, and leaves no service running: the benchmark
# starts servers of its own. A package that cannot be installed stops nothing: its peer is left out, and says why.
set -u

missing=""
ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || missing="postgresql"
command -v redis-server >/dev/null || missing="$missing redis-server"
[ -n "$missing" ] || exit 0

# Debian asks this file before it starts a service; 101 forbids it.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ] && printf '#!/bin/sh\nexit 101\n' >"$policy"; then
    trap 'rm -f "$policy"' EXIT
    chmod +x "$policy"
fi

for package in $missing; do
    if apt-get install --yes --quiet "$package"; then
        systemctl disable --quiet "$package" || true
    else
        echo "$package could not be installed" >&2
    fi
done
exit 0
