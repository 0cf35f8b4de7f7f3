#!/usr/bin/env bash
# What the gateway adds to a chat at 1,000 chats a second: authentication, limits, ledger (SQLite).
# Two accounts of it, for chats of OpenAI's API (/v1/chat/completions) and for turns of a conversation
# (/v1/bot/chat), which are kept before they are acknowledged; and of turns once more with the archive in memory,
# which shows what SQLite takes:
#
#   by the gateway   the time of an answer less that of its upstream, by its own histogram, whose
#                    buckets are 1.25 times as wide as the one before; reading the request is outside of it
#   by the user      the response time through the gateway less the median of the model server's own at the
#                    same rate, in turns: all that the gateway's process and its connections add
#
# Gateway on one CPU, model server (no delays) and generator on the other, open loop, Poisson.
#
#   bench/bot-overhead.sh | tee bench/bot-overhead.txt
#
# Settings, by environment:
#   RATE=1000 SECONDS_EACH=8 SERVER_CPU=0 LOAD_CPU=1 PORT=18250
set -euo pipefail
cd "$(dirname "$0")/.."

rate=${RATE:-1000} seconds=${SECONDS_EACH:-8} server_cpu=${SERVER_CPU:-0} load_cpu=${LOAD_CPU:-1} port=${PORT:-18250}
dyno=${DYNO:-$PWD/bin/dyno}
. bench/required.sh
. bench/bot.sh
required jq curl taskset "$dyno" "${dyno%/*}/dyno-bot"
dir=$(mktemp -d)
trap 'kill "${running[@]}" 2>/dev/null || true; wait; rm -rf "$dir"' EXIT
turn='{"bot_id":"b","user_id":"u","query":"How long does light from the sun take to reach us, and why?"}'

# load NAME URL BODY: the times of the load, in dir/NAME.
load() {
	"$dyno" http -q --cpus "$load_cpu" -R "$rate" --arrivals poisson -c 64 -z "${seconds}s" --warmup 1s --json "$dir/$1" \
		-X POST -H 'Content-Type: application/json' -H "Authorization: Bearer $bot_key" --body "$3" "$2" >/dev/null || [ $? = 4 ]
}
us() { jq -nr --argjson a "$1" '$a * 1e6 | round'; }
of() { jq ".variants[0].$2" "$dir/$1"; }
figure() { jq --arg metric "$2" '.variants[0].figures[$metric].estimate' "$dir/$1"; }

echo "made by: RATE=$rate SECONDS_EACH=$seconds bench/bot-overhead.sh"
on "$load_cpu" "$dyno" serve llm --listen "127.0.0.1:$port"
for kind in chat turn memory; do
	bot=$((port + 10)) path=/v1/chat/completions body=$(chat false)
	[ "$kind" = chat ] || { bot=$((port + 20)) path=/v1/bot/chat body=$turn; }
	bot_config "$bot" "$port" "$dir/$kind.db" >"$dir/$kind.yaml"
	[ "$kind" != memory ] || { bot=$((port + 30)) && bot_config "$bot" "$port" "" | sed '/^file:/d; s/^archive:.*/archive: memory/' >"$dir/$kind.yaml"; }
	on "$server_cpu" env GOMAXPROCS=1 "${dyno%/*}/dyno-bot" --config "$dir/$kind.yaml"
	ready "$port" "$bot"
	load bare.1 "http://127.0.0.1:$port/v1/chat/completions" "$(chat false)"
	load through "http://127.0.0.1:$bot$path" "$body"
	load bare.2 "http://127.0.0.1:$port/v1/chat/completions" "$(chat false)"
	bare=$(jq -s 'map(.variants[0].figures["response.p50"].estimate) | add / 2' "$dir/bare.1" "$dir/bare.2")
	echo
	echo "$kind: $(of through counts.ok) good answers, $(figure through errors.total) others, $(figure through throughput) a second"
	echo "  model server alone: p50 $(us "$bare") µs, p99 $(us "$(jq -s 'map(.variants[0].figures["response.p99"].estimate) | max' "$dir/bare.1" "$dir/bare.2")") µs"
	echo "  through the gateway: p50 $(us "$(figure through response.p50)") µs, p99 $(us "$(figure through response.p99)") µs"
	for q in 50 99; do
		echo "result: $kind.gateway.p$q $(us "$(quantile $((bot + 1)) bot_overhead_seconds "0.$q")") µs"
		echo "result: $kind.user.p$q $(us "$(jq -n --argjson a "$(figure through "response.p$q")" --argjson b "$bare" '$a - $b')") µs"
	done
done
