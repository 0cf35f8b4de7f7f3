#!/usr/bin/env bash
# The shares of a hub's CPU time in futex calls, and in reads from connections, by its own CPU profile under the load of
# R4-sse-ladder.yaml. Prints one line of JSON: futex_share, read_share.
#
#   futex.sh baseline|last     (dyno and events-variants are in bin/, Go is on PATH)
set -euo pipefail
case $1 in
baseline) steps=(--pooled-buffers=false --encode-once=false --single-write=false --hijack=false --event-loop=false) ;;
last) steps=() ;;
*) echo "futex: want baseline or last, not $1" >&2; exit 2 ;;
esac
dir=$(mktemp -d) hub= load=
trap 'for p in $hub $load; do kill "$p" 2>/dev/null || true; done; rm -rf "$dir"' EXIT
at=127.0.0.1:7812 admin=127.0.0.1:7813
GOMAXPROCS=1 taskset -c 0 bin/events-variants --listen $at --admin $admin --outcome block --queue-events 64 "${steps[@]}" 2>"$dir/log" &
hub=$!
until curl -fso "$dir/ready" "http://$admin/readyz"; do sleep 0.05; done
bin/dyno sse -c 1000 --publish '/publish?topic=t' --publishers 16 --size 100 -q -z 8s --warmup 0 --cpus 1 "http://$at/events?topic=t" >"$dir/load" 2>&1 &
load=$!
sleep 1.5 # then the hub is so busy that it takes seconds to begin with its profile
curl -fso "$dir/cpu" "http://$admin/debug/pprof/profile?seconds=3"
go tool pprof -top -nodefraction=0 -edgefraction=0 -nodecount=100000 "$dir/cpu" 2>"$dir/pprof" | awk '
	{ name = $6 }
	name == "runtime.futex" { futex = $2 + 0 }
	name == "internal/poll.(*FD).Read" { read = $5 + 0 }
	/^Showing nodes accounting/ { total = 1 }
	END { if (!total) exit 1; printf "{\"futex_share\": %g, \"read_share\": %g}\n", futex / 100, read / 100 }'
