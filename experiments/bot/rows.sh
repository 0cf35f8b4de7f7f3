#!/usr/bin/env bash
# Rows written to a database that is started for it, by the micro command of experiments/subjects/bot:
#
#   experiments/bot/rows.sh postgres|sqlite FLAG…
set -euo pipefail
cd "$(dirname "$0")"
program=../../bin/bot-variants
if [ "$1" = --build ]; then
	go build -o "$program" ../subjects/bot
	exec ./postgres.sh --build
fi
archive=$1
shift
if [ "$archive" != postgres ]; then
	exec "$program" micro rows --archive "$archive" "$@"
fi
dir=$(mktemp -d)
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
./postgres.sh "$port" >"$dir/log" 2>&1 &
server=$!
trap 'kill "$server"; wait "$server"; rm -rf "$dir"' EXIT
for ((i = 0; i < 300; i++)); do
	(: >"/dev/tcp/127.0.0.1/$port") 2>/dev/null && break
	sleep 0.1
done
sleep 0.5 # it listens before it lets anybody in
(umask 077 && echo "postgres://bot@127.0.0.1:$port/postgres?sslmode=disable" >"$dir/secret")
"$program" micro rows --archive postgres --postgres-file "$dir/secret" "$@"
