#!/usr/bin/env bash
# Streams whose clients leave: every one must be in the ledger, memory must be flat, and no goroutine may be
# left. Clients ask for slow answers (a token each 100 ms) and close their connections after 250 ms, in rounds.
# After each round: what is live when garbage has been collected, which grows if anything is held on to, and resident
# memory, in which is garbage too, and memory that the runtime has not given back yet.
#
#   bench/bot-aborts.sh | tee bench/bot-aborts.txt
#
# Settings, by environment:
#   ABORTS=10000 ROUNDS=5 CONNECTIONS=1000 PORT=18400
set -euo pipefail
cd "$(dirname "$0")/.."

aborts=${ABORTS:-10000} rounds=${ROUNDS:-5} connections=${CONNECTIONS:-1000} port=${PORT:-18400}
dyno=${DYNO:-$PWD/bin/dyno}
. bench/required.sh
. bench/bot.sh
required jq curl taskset sqlite3 "$dyno" "${dyno%/*}/dyno-bot"
dir=$(mktemp -d)
trap 'kill "${running[@]}" 2>/dev/null || true; wait; rm -rf "$dir"' EXIT
bot=$((port + 10)) all=0-$(($(nproc) - 1))
on "$all" "$dyno" serve llm --listen "127.0.0.1:$port" --inter-token 100ms
bot_config "$bot" "$port" "$dir/bot.db" >"$dir/bot.yaml"
on "$all" "${dyno%/*}/dyno-bot" --config "$dir/bot.yaml"
process=$started
ready "$port" "$bot"
rss() { awk '/^VmRSS:/ {print $2 / 1024}' "/proc/$process/status"; }
abort() {
	"$dyno" llm -q -c "$connections" -n "$1" --warmup 0 --timeout 250ms --json "$dir/out" --model dyno-1 --max-tokens 1000 --prompt hello \
		-H "Authorization: Bearer $bot_key" "http://127.0.0.1:$bot/v1" >/dev/null 2>>"$dir/log" || true
	jq '.variants[0].counts | .timeouts' "$dir/out"
}
settle() {
	for ((i = 0; i < 100; i++)); do
		[ "$(metric $((bot + 1)) bot_streams)" -gt 0 ] || [ "$(metric $((bot + 1)) bot_archive_pending)" -gt 0 ] || return 0
		sleep 0.1
	done
}
# live: bytes of the heap in use after a collection of garbage, and of stacks.
live() {
	curl -sS "http://127.0.0.1:$((bot + 1))/debug/pprof/heap?gc=1" >/dev/null
	jq -n "$(metric $((bot + 1)) go_memstats_heap_alloc_bytes) + $(metric $((bot + 1)) go_memstats_stack_inuse_bytes)"
}
echo "made by: ABORTS=$aborts ROUNDS=$rounds CONNECTIONS=$connections bench/bot-aborts.sh"
each=$((aborts / rounds)) left=0 live=() resident=() goroutines=()
for ((round = 0; round <= rounds; round++)); do # the first one warms up
	n=$(abort "$each")
	left=$((left + n))
	settle
	sleep 1
	resident+=("$(rss)") live+=("$(live)") goroutines+=("$(metric $((bot + 1)) go_goroutines)")
done
aborted=$(metric $((bot + 1)) bot_answers_total)
entries=$(sqlite3 "$dir/bot.db" "SELECT count(*) FROM entries")
outcomes=$(sqlite3 "$dir/bot.db" "SELECT group_concat(n || ' ' || outcome, ', ') FROM (SELECT outcome, count(*) n FROM entries GROUP BY outcome)")
used=$(curl -sS -H "Authorization: Bearer $bot_key" "http://127.0.0.1:$bot/v1/usage" | jq -c '[.. | objects | select(.resource? == "requests") | .used][0]')
echo "clients that left: $left in $((rounds + 1)) rounds; the gateway has answered $aborted"
echo "in the ledger: $entries ($outcomes); counted against the limit: $used; estimated: $(sqlite3 "$dir/bot.db" "SELECT count(*) FROM entries WHERE estimated"); completion tokens: $(sqlite3 "$dir/bot.db" "SELECT sum(completion) FROM entries")"
echo "result: missing $((${aborted%.*} - entries))"
mib() { for v; do jq -n "$v / 104857.6 | round / 10"; done | paste -sd ' ' | sed 's/ / → /g'; }
echo "result: live $(mib "${live[@]}") MiB"
echo "result: resident $(for v in "${resident[@]}"; do jq -n "$v | round"; done | paste -sd ' ' | sed 's/ / → /g') MiB"
echo "result: goroutines $(echo "${goroutines[@]}" | sed 's/ / → /g')"
echo "not accounted: $(metric $((bot + 1)) bot_unaccounted_total)"
