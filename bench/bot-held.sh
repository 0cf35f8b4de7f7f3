#!/usr/bin/env bash
# What a stream under way takes of the gateway's memory: streams that wait for their next token, as many as descriptors
# allow. With HTTP/1.1 to the model server each takes two; with HTTP/2 there, one; with HTTP/2 from its clients (h2load, as
# proxies do), none. The gateway's memory with them less that before, divided by their number.
#
#   bench/bot-held.sh | tee bench/bot-held.txt
#
# Settings, by environment:
#   HELD=9900 HELD2=10000 SERVER_CPU=0 LOAD_CPU=1 PORT=18350
set -euo pipefail
cd "$(dirname "$0")/.."

held=${HELD:-9900} held2=${HELD2:-10000} server_cpu=${SERVER_CPU:-0} load_cpu=${LOAD_CPU:-1} port=${PORT:-18350}
dyno=${DYNO:-$PWD/bin/dyno}
. bench/required.sh
. bench/bot.sh
required jq curl taskset h2load "$dyno" "${dyno%/*}/dyno-bot"
dir=$(mktemp -d)
trap 'kill "${running[@]}" 2>/dev/null || true; wait; rm -rf "$dir"' EXIT
ulimit -n "$(ulimit -Hn)"
echo "made by: HELD=$held HELD2=$held2 bench/bot-held.sh"
slow=$port
on "$load_cpu" "$dyno" serve llm --listen "127.0.0.1:$slow" --inter-token 10s
ready "$slow"

jq -nc '{model: "dyno-1", stream: true, max_tokens: 1000, messages: [{role: "user", content: "hello"}]}' >"$dir/body"
# http1 PORT NUMBER, http2 PORT NUMBER: as many streams of a client.
http1() { exec "$dyno" llm -q --cpus "$load_cpu" -c "$2" -z 240s --warmup 0 --timeout 240s --model dyno-1 --max-tokens 1000 --prompt hello -H "Authorization: Bearer $bot_key" "http://127.0.0.1:$1/v1"; }
http2() { exec taskset -c "$load_cpu" h2load -n "$2" -c 50 -m 250 -d "$dir/body" -H "Authorization: Bearer $bot_key" -H "Content-Type: application/json" "http://127.0.0.1:$1/v1/chat/completions"; }

# hold NAME CLIENT PORT NUMBER FURTHER-CONFIGURATION: holds streams, whose answers have 1,000 tokens, one each 10 s. Live memory is what is left after a collection
# of garbage; resident memory is what the kernel counts at the moment when the last one is there.
hold() {
	local name=$1 client=$2 bot=$3 held=$4
	{ bot_config "$bot" "$slow" "$dir/$name.db"; echo "$5"; } >"$dir/$name.yaml"
	on "$server_cpu" env GOMAXPROCS=1 "${dyno%/*}/dyno-bot" --config "$dir/$name.yaml"
	local process=$started
	ready "$bot"
	rss() { awk '/^VmRSS:/ {print $2 * 1024}' "/proc/$process/status"; }
	collect() { curl -sS "http://127.0.0.1:$((bot + 1))/debug/pprof/heap?gc=1" >/dev/null; }
	of_heap() { metric $((bot + 1)) "go_memstats_$1"; }
	collect
	local before live_before
	before=$(rss) live_before=$(jq -n "$(of_heap heap_alloc_bytes) + $(of_heap stack_inuse_bytes)")
	"$client" "$bot" "$held" >/dev/null 2>>"$dir/log" &
	local load=$!
	running+=("$load")
	local most=0 at=0 n now
	for ((i = 0; i < 40; i++)); do
		sleep 0.5
		n=$(metric $((bot + 1)) bot_streams) now=$(rss)
		[ "$n" -le "$at" ] || { at=$n most=$now; }
		[ "$n" -lt "$held" ] || break
	done
	collect
	collect # stacks shrink by half each time
	local heap stacks goroutines descriptors
	heap=$(of_heap heap_alloc_bytes) stacks=$(of_heap stack_inuse_bytes)
	goroutines=$(metric $((bot + 1)) go_goroutines) descriptors=$(metric $((bot + 1)) process_open_fds)
	kill "$load" 2>/dev/null || true
	wait "$load" 2>/dev/null || true
	echo
	echo "$name: $at of $held streams held, resident $(jq -n "$most / 1e6 | round") MB, before $(jq -n "$before / 1e6 | round") MB; $goroutines goroutines, $descriptors descriptors"
	echo "  live after a collection: heap $(jq -n "$heap / 1e6 | round") MB, stacks $(jq -n "$stacks / 1e6 | round") MB"
	echo "result: $name.held $at"
	echo "result: $name.memory $(jq -n "($most - $before) / $at / 1024 * 10 | round / 10") KiB a stream"
	echo "result: $name.live $(jq -n "($heap + $stacks - $live_before) / $at / 1024 * 10 | round / 10") KiB a stream"
	for ((i = 0; i < 40; i++)); do
		[ "$(metric $((bot + 1)) bot_streams)" -gt 0 ] || break
		sleep 0.5
	done
	echo "  after it: $(metric $((bot + 1)) bot_streams) streams, $(metric $((bot + 1)) go_goroutines) goroutines, $(metric $((bot + 1)) bot_archive_records_total) records in the ledger, $(curl -sS "http://127.0.0.1:$((bot + 1))/metrics" | awk '/^bot_answers_total/ && !/outcome="aborted"/ {n += $NF} END {print n + 0}') of them not of a client that left"
	kill "$process"
}
hold http1 http1 $((port + 30)) "$held" ""
hold http2-upstream http1 $((port + 40)) "$held2" "upstream: {http2: true}"
hold http2 http2 $((port + 50)) "$held2" "upstream: {http2: true}"
