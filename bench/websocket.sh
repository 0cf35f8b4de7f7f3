#!/usr/bin/env bash
# WebSocket: what an idle connection costs the generator in memory, and how many round trips a second of its CPU time
# makes, against k6.
#
#   memory  subscribers of a server that pushes five messages to each. Memory is resident, of the largest process of the
#           generator, while all are open. What it has with 100 connections is subtracted
#   pair    round trips of 64 bytes on 50 connections, closed loop, with `dyno serve echo`, which counts the messages that
#           it sends back: the server on one CPU, generators in turns on another
#
#   bench/websocket.sh | tee bench/websocket.txt
#
# Settings, by environment:
#   PARTS="memory pair" CONNECTIONS=19000 RAMP=2000 SECONDS_EACH=10 ROUNDS=5 SERVER_CPU=0 LOAD_CPU=1 PORT=18090
#   DYNO=…/bin/dyno K6=k6
set -euo pipefail
cd "$(dirname "$0")/.."
parts=${PARTS:-memory pair} connections=${CONNECTIONS:-19000} ramp=${RAMP:-2000} seconds=${SECONDS_EACH:-10} rounds=${ROUNDS:-5}
# shellcheck disable=SC2034 # generator.sh uses load_cpu
server_cpu=${SERVER_CPU:-0} load_cpu=${LOAD_CPU:-1} port=${PORT:-18090} dyno=${DYNO:-$PWD/bin/dyno} k6=${K6:-k6}

. bench/required.sh
. bench/generator.sh
required jq taskset curl go "$dyno"
dir=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null || true; rm -rf "$dir"' EXIT
echo "made by: PARTS='$parts' CONNECTIONS=$connections RAMP=$ramp SECONDS_EACH=$seconds ROUNDS=$rounds bench/websocket.sh"
echo "$(nproc) × $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1), Linux $(uname -r), load $(cut -d' ' -f1 /proc/loadavg) at the start"
serve=("$dyno" serve echo --http "127.0.0.1:$port" --admin "127.0.0.1:$((port + 1))")
url=ws://127.0.0.1:$port/

# resident PID: of a process or its children, the largest resident memory, in KiB.
resident() {
	local p
	for p in "$1" $(cat "/proc/$1/task/"*/children); do awk '/^VmRSS:/ {print $2}' "/proc/$p/status"; done 2>/dev/null | sort -n | tail -n 1
}

# idle N: prints the generator's memory with N subscribers, after each has got a message and before each gets others.
idle() {
	local n=$1 load left kib open before sent
	read -r _ before < <(curl -fs "$push")
	"$dyno" ws -q --subscribe-only -c "$n" --ramp "$ramp" -z "$seconds" --warmup 0 --json "$dir/$n.json" "$url" >"$dir/$n.out" 2>&1 &
	load=$!
	for ((left = 1200; left > 0; left--)); do
		read -r open _ < <(curl -fs "$push")
		[ "$open" -lt "$n" ] || break
		kill -0 "$load" 2>/dev/null || break
		sleep 0.1
	done
	sleep 2 # the window has begun
	curl -fso /dev/null -X POST "$push"
	sleep 2
	kib=$(resident "$load")
	for left in 1 2 3 4; do curl -fso /dev/null -X POST "$push"; done
	read -r _ sent < <(curl -fs "$push")
	wait "$load" || [ $? -eq 4 ] || {
		cat "$dir/$n.out" >&2
		exit 1
	}
	jq -r --arg n "$n" --argjson kib "$kib" --argjson sent "$((sent - before))" '.variants[0].streams |
		"result: idle.\($n).open \(.peak)", "result: idle.\($n).failed \(.failed + .ended + .broken)",
		"result: idle.\($n).delivered \(.all_delivered)", "result: idle.\($n).server_sent \($sent)", "result: idle.\($n).kib \($kib)"' "$dir/$n.json"
}

if [[ " $parts " = *" memory "* ]]; then
	printf '\nmemory\n'
	required node load/engine/testdata/clients/node_modules/ws
	node bench/websocket-push.mjs "$port" >"$dir/server" 2>&1 &
	server=$!
	push=http://127.0.0.1:$port/
	for ((left = 100; left > 0; left--)); do ! curl -fso /dev/null "$push" || break; sleep 0.1; done
	idle 100 | tee "$dir/few"
	idle "$connections" | tee "$dir/many"
	cat "$dir/few" "$dir/many" | awk -v n=$((connections - 100)) '/kib/ {k[++i] = $3} END {printf "result: idle.bytes_per_connection %.0f\n", (k[2] - k[1]) * 1024 / n}'
	kill "$server"
	wait "$server" || true
	server=
fi

if [[ " $parts " = *" pair "* ]]; then
	printf '\npair\n'
	required "$k6"
	subjects=() both=50
	# count NAME: what a generator says that it has achieved, and what the server has counted meanwhile.
	cat >"$dir/count" <<END
own=\$(cat)
last=\$(cat "$dir/last" 2>/dev/null || echo 0)
curl -fs http://127.0.0.1:$((port + 1))/metrics | awk '\$1 == "echo_websocket_messages_total" {printf "%.0f\n", \$2}' >"$dir/last"
echo "\$1 \$own \$((\$(cat "$dir/last") - last))" >>"$dir/counts"
echo "\$own"
END
	# Exit code 4 says that the generator was the limit: here it is meant to be.
	subject dyno "jq '.variants[0].all_counts.ok // .variants[0].counts.ok' | bash $dir/count dyno" '[4]' "$dyno" ws -q -c "$both" -z "${seconds}s" --warmup 0 --json - "$url"
	for api in ws websockets; do
		subject "k6/$api" "tail -n 1 | bash $dir/count k6/$api" '[]' "$k6" run --quiet --no-usage-report -e "API=$api" -e "URL=$url" -e "CONNECTIONS=$both" -e "SECONDS_EACH=$seconds" bench/websocket.js
	done
	printf '%s\n' "${subjects[@]}" | jq -s --argjson rounds "$rounds" --arg cpus "$server_cpu" --arg ready "127.0.0.1:$port" --args '{
		title: "WebSocket, 50 connections, closed loop, messages of 64 bytes, echo on CPU \($cpus): round trips per CPU-second of the generator",
		key: "50", unit: "round trips", $rounds, base: "k6/ws",
		services: [{run: $ARGS.positional, $cpus, $ready}], subjects: .}' -- "${serve[@]}" >"$dir/plan.json"
	go build -o "$dir/pair" ./experiments/bench/pair
	"$dir/pair" <"$dir/plan.json"
	echo
	awk '{own[$1] += $2; server[$1] += $3} END {for (name in own) printf "result: 50.%s.counted %.0f, by the server %.0f\n", name, own[name], server[name]}' "$dir/counts" | sort
fi
