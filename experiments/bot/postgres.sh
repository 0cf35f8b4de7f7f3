#!/usr/bin/env bash
# A PostgreSQL for experiments, on 127.0.0.1 with fsync and synchronous_commit as they are by default:
#
#   experiments/bot/postgres.sh PORT [ARCHIVE]    until it is stopped; what it keeps is removed then
#
# With --build it ends at once, and with exit code 3 where PostgreSQL is not installed. Of an archive that is
# not "postgres" it is none, and listens all the same.
set -euo pipefail
if [ "${2:-postgres}" != postgres ]; then
	[ "$1" != --build ] || exit 0
	exec redis-server --port "$1" --bind 127.0.0.1 --save "" # whatever listens
fi
bin=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | tail -n 1)
if [ -z "$bin" ] || [ ! -x "$bin/initdb" ]; then
	echo "PostgreSQL is not installed (Debian: postgresql)"
	exit 3
fi
[ "$1" != --build ] || exit 0
dir=$(mktemp -d)
trap 'kill "$server" 2>/dev/null; wait "$server"; rm -rf "$dir"' EXIT
server=
as=()
if [ "$(id -u)" -eq 0 ]; then # which it does not run as
	chown postgres "$dir"
	as=(setpriv --reuid postgres --regid postgres --clear-groups)
fi
"${as[@]}" "$bin/initdb" -D "$dir/data" -A trust -U bot >/dev/null
"${as[@]}" "$bin/postgres" -D "$dir/data" -k "$dir" -p "$1" -c listen_addresses=127.0.0.1 &
server=$!
trap 'exit 0' TERM INT
wait "$server"
