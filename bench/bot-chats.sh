#!/usr/bin/env bash
# How many chats a second two CPUs carry with everything on them: generator, gateway (authentication,
# limits, ledger), its stores and the model server. Closed loop, nothing is placed. First the model server's
# bare ceiling; then the gateway with embedded stores (limits in memory, ledger in SQLite); then with Redis
# (limits, sessions; appendonly, fsync each second) and PostgreSQL (ledger and turns; fsync and synchronous_commit on).
# With each: the CPU time of a chat over all processes, which says what the machine's limit is.
#
#   bench/bot-chats.sh | tee bench/bot-chats.txt
#
# Settings, by environment:
#   SECONDS_EACH=8 CONNECTIONS=64 PORT=18300
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${SECONDS_EACH:-8} connections=${CONNECTIONS:-64} port=${PORT:-18300}
dyno=${DYNO:-$PWD/bin/dyno}
all=0-$(($(nproc) - 1))
. bench/required.sh
. bench/bot.sh
required jq curl taskset redis-server "$dyno" "${dyno%/*}/dyno-bot" "$postgres/initdb"
dir=$(mktemp -d)
trap 'kill "${running[@]}" 2>/dev/null || true; wait; rm -rf "$dir"' EXIT

# tree PROCESS: the CPU time of a process and of its children that are there, in seconds.
tree() { { echo "$1"; ps -o pid= --ppid "$1" || true; } | while read -r p; do cpu_of "$p" 2>/dev/null || true; done | awk '{s += $1} END {print s}'; }

# row NAME URL BODY [PROCESS-NAME PROCESS]…: loads it, and prints a row.
row() {
	local name=$1 url=$2 body=$3 parts=() before=()
	shift 3
	parts=("$@")
	local i
	"$dyno" http -q -c "$connections" -z 1s --warmup 0 -X POST -H 'Content-Type: application/json' -H "Authorization: Bearer $bot_key" --body "$body" "$url" >/dev/null 2>&1 || true
	for ((i = 1; i < ${#parts[@]}; i += 2)); do before[i]=$(tree "${parts[i]}"); done
	"$dyno" http -q -c "$connections" -z "${seconds}s" --warmup 0 --json "$dir/out" -X POST -H 'Content-Type: application/json' \
		-H "Authorization: Bearer $bot_key" --body "$body" "$url" >/dev/null || [ $? = 4 ]
	local ok account sum
	ok=$(jq '.variants[0].counts.ok' "$dir/out")
	account="generator $(jq '.variants[0].figures["generator.cpu_per_request"].estimate * 1e6 | round' "$dir/out")"
	sum=$(jq '.variants[0].figures["generator.cpu_per_request"].estimate * 1e6' "$dir/out")
	for ((i = 1; i < ${#parts[@]}; i += 2)); do
		local each
		each=$(jq -n --argjson a "$(tree "${parts[i]}")" --argjson b "${before[i]}" --argjson n "$ok" '($a - $b) * 1e6 / $n')
		account+=", ${parts[i - 1]} $(jq -n --argjson e "$each" '$e | round')"
		sum=$(jq -n --argjson a "$sum" --argjson b "$each" '$a + $b')
	done
	echo
	jq -r --arg name "$name" '.variants[0] | "\($name): \(.figures.throughput.estimate | round) chats/s, p50 \(.figures["service.p50"].estimate * 1e5 | round / 100) ms, p99 \(.figures["service.p99"].estimate * 1e5 | round / 100) ms, \(.figures["errors.total"].estimate) errors"' "$dir/out"
	echo "  CPU-µs of a chat: $account; in all $(jq -n --argjson s "$sum" '$s | round'), with which $(nproc) CPUs carry $(jq -n --argjson s "$sum" --argjson n "$(nproc)" '$n * 1e6 / $s | round') a second at most"
	jq -r --arg name "$name" '"result: \($name | gsub(" "; "-")) \(.variants[0].figures.throughput.estimate | round)"' "$dir/out"
}

echo "made by: SECONDS_EACH=$seconds CONNECTIONS=$connections bench/bot-chats.sh"
turn='{"bot_id":"b","user_id":"u","query":"How long does light from the sun take to reach us, and why?"}'
bot_config $((port + 10)) "$port" "$dir/bot.db" >"$dir/embedded.yaml"
on "$all" "$dyno" serve llm --listen "127.0.0.1:$port"
model=$started
on "$all" "${dyno%/*}/dyno-bot" --config "$dir/embedded.yaml"
bot=$started
ready "$port" $((port + 10))
row "model server alone" "http://127.0.0.1:$port/v1/chat/completions" "$(chat false)" "model server" "$model"
row "embedded, chat" "http://127.0.0.1:$((port + 10))/v1/chat/completions" "$(chat false)" gateway "$bot" "model server" "$model"
row "embedded, turn" "http://127.0.0.1:$((port + 10))/v1/bot/chat" "$turn" gateway "$bot" "model server" "$model"
kill "$bot"

on_postgres "$all" $((port + 32))
database=$started
on "$all" redis-server --port $((port + 33)) --bind 127.0.0.1 --dir "$dir" --save "" --appendonly yes --appendfsync everysec
redis=$started
ready $((port + 32)) $((port + 33))
sleep 1 # it says so before it lets anybody in
(umask 077 && echo "postgres://bot@127.0.0.1:$((port + 32))/postgres?sslmode=disable" >"$dir/postgres.secret") # a secret that others could read is refused
{
	bot_config $((port + 20)) "$port" "" | grep -v '^file:\|^archive:'
	printf 'archive: postgres\npostgres_file: %s\nredis: 127.0.0.1:%s\n' "$dir/postgres.secret" $((port + 33))
} >"$dir/servers.yaml"
on "$all" "${dyno%/*}/dyno-bot" --config "$dir/servers.yaml"
bot=$started
ready $((port + 20))
row "servers, chat" "http://127.0.0.1:$((port + 20))/v1/chat/completions" "$(chat false)" gateway "$bot" Redis "$redis" PostgreSQL "$database" "model server" "$model"
row "servers, turn" "http://127.0.0.1:$((port + 20))/v1/bot/chat" "$turn" gateway "$bot" Redis "$redis" PostgreSQL "$database" "model server" "$model"
echo
echo "not accounted: $(metric $((port + 21)) bot_unaccounted_total); turns not kept at once, of outages of stores: $(metric $((port + 21)) bot_degraded_total)"
