#!/usr/bin/env bash
# How much the throughput of a gRPC echo varies from second to second, with 10,000 calls in flight, 100 on each of 100
# connections. Prints the figures of "phases vary" (experiments/subjects/phases).
#
#   vary.sh ADDRESS COLD SLICES     COLD: how many seconds do not count at first; bin/phases is built, dyno is on PATH
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
code=0
dyno grpc -q -c 100 --streams 100 --warmup 0s -z $(($2 + $3))s --cpus 1 --proto services/echo/rpc/echo.proto -d '{"text": "0123456789abcdef"}' \
	-o "$dir/run" "$1" dyno.echo.v1.Echo/Echo >"$dir/log" 2>&1 || code=$?
if ! grep -qs '"complete": true' "$dir/run/run.json"; then
	cat "$dir/log" >&2
	exit "$code"
fi
bin/phases vary --folder "$dir/run" --cold "$2s" --slices "$3"
