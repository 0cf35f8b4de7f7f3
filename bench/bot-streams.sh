#!/usr/bin/env bash
# What the gateway adds between tokens: about 500 streams at once, a token each $GAP, through the gateway and from the model server itself,
# in turns; the gap between two pieces, by the kernel's stamps, and the gateway's own account: the time
# from when it has an event to when it has passed it on.
#
# Streams are of 100 tokens, and begin at any time: half as many clients again as streams ask, and wait for their first token for up to
# as long as a stream goes on. If all began at once, they would also keep ending at once, and one
# gap in a hundred would have the work of 500 new requests in it. The result is the median over the
# rounds of one p99 minus the other.
#
#   bench/bot-streams.sh | tee bench/bot-streams.txt
#
# Settings, by environment:
#   ROUNDS=5 STREAMS=500 GAP=50ms SECONDS_EACH=20 SERVER_CPU=0 LOAD_CPU=1 PORT=18350
set -euo pipefail
cd "$(dirname "$0")/.."

rounds=${ROUNDS:-5} streams=${STREAMS:-500} gap=${GAP:-50ms} seconds=${SECONDS_EACH:-20}
server_cpu=${SERVER_CPU:-0} load_cpu=${LOAD_CPU:-1} port=${PORT:-18350}
dyno=${DYNO:-$PWD/bin/dyno}
. bench/required.sh
. bench/bot.sh
required jq curl taskset "$dyno" "${dyno%/*}/dyno-bot"
dir=$(mktemp -d)
trap 'kill "${running[@]}" 2>/dev/null || true; wait; rm -rf "$dir"' EXIT
echo "made by: ROUNDS=$rounds STREAMS=$streams GAP=$gap SECONDS_EACH=$seconds bench/bot-streams.sh"

bot=$((port + 10))
on "$load_cpu" "$dyno" serve llm --listen "127.0.0.1:$port" --first-token "uniform(0s,$((${gap%ms} * 100))ms)" --inter-token "$gap"
bot_config "$bot" "$port" "$dir/bot.db" >"$dir/bot.yaml"
on "$server_cpu" env GOMAXPROCS=1 "${dyno%/*}/dyno-bot" --config "$dir/bot.yaml"
gateway=$started
ready "$port" "$bot"

# ask NAME PORT CONNECTIONS SECONDS TOKENS
ask() {
	"$dyno" llm -q --cpus "$load_cpu" -c "$3" -z "$4s" --warmup 5s --json "$dir/$1" --model dyno-1 --max-tokens "$5" --prompt "How long does light from the sun take to reach us?" \
		-H "Authorization: Bearer $bot_key" "http://127.0.0.1:$2/v1" >/dev/null || [ $? = 4 ]
}
ms() { jq -r --arg metric "$2" '.variants[0] | (.figures[$metric].estimate // .figures_of_few[$metric]) * 1e6 | round / 1000' "$dir/$1"; }
for ((turn = 1; turn <= rounds; turn++)); do
	ask "alone.$turn" "$port" $((streams * 3 / 2)) "$seconds" 100
	ask "through.$turn" "$bot" $((streams * 3 / 2)) "$seconds" 100
	for name in alone through; do
		echo "$name: $(jq '.variants[0].counts.ok' "$dir/$name.$turn") answers, $(jq '.variants[0].counts.by_kind.unfinished // 0' "$dir/$name.$turn") under way at the end, $(jq '.variants[0] | .figures["errors.total"].estimate - (.counts.by_kind.unfinished // 0)' "$dir/$name.$turn") errors; gap between pieces p50 $(ms "$name.$turn" message_gap.p50) ms, p99 $(ms "$name.$turn" message_gap.p99) ms, p99.9 $(ms "$name.$turn" message_gap.p999) ms; per token p99 $(ms "$name.$turn" token_time.p99) ms"
	done
done
for ((turn = 1; turn <= rounds; turn++)); do
	jq -s 'map(.variants[0].figures["message_gap.p99"].estimate) | .[1] - .[0]' "$dir/alone.$turn" "$dir/through.$turn"
done | jq -rs 'map(. * 1e6 | round / 1000) | sort | "result: added.p99 \(.[length / 2 | floor]) ms (\(first) … \(last))"'
for q in 0.50 0.99; do
	echo "result: gateway.event.p${q#0.} $(jq -n --argjson s "$(quantile $((bot + 1)) bot_event_seconds "$q")" '$s * 1e6 | round / 1000') ms"
done
events=$(metric $((bot + 1)) bot_event_seconds_count)
echo "result: gateway.cpu $(jq -n "$(cpu_of "$gateway") * 1e6 / $events | round") µs a token, with all that is around it; $events tokens"
