#!/usr/bin/env bash
# A gateway for experiments, with an archive and, but for "memory" and "sqlite", a Redis:
#
#   experiments/bot/gateway.sh memory|sqlite|postgres STORES FLAG…
#
# STORES is HOST:PORT of PostgreSQL and of Redis, with a comma between them; "-" for the other archives. The
# flags are those of dyno serve bot, or of the program in $GATEWAY. What it keeps is removed at its end.
set -euo pipefail
read -ra program <<<"${GATEWAY:-dyno serve bot}"
archive=$1 stores=$2
shift 2
config=$(cd "$(dirname "$0")" && pwd)/gateway.yml
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
flags=(--config "$config" --archive "$archive" --price 500,1500)
case $archive in
sqlite) flags+=(--file "$dir/bot.db") ;;
postgres)
	(umask 077 && echo "postgres://bot@${stores%,*}/postgres?sslmode=disable" >"$dir/postgres.secret")
	flags+=(--postgres-file "$dir/postgres.secret" --redis "${stores#*,}")
	;;
esac
"${program[@]}" "${flags[@]}" "$@" &
gateway=$!
trap 'kill -TERM "$gateway"' TERM INT
wait "$gateway" || true
wait "$gateway"
