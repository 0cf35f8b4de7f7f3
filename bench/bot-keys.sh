#!/usr/bin/env bash
# Keys that are made, limited, rotated and revoked at run time, by the admin API of either of two bot gateways, while both serve:
# an open loop of dyno, half of it streamed, which goes on a minute longer. The gateways share PostgreSQL (keys, ledger) and Redis (limits), on the machine's CPUs,
# where nothing is placed. Fails if a request is cut or refused for another reason than the state of its key, if a gateway takes a key 2 s after
# it was revoked or replaced, if a limit of 60 requests a minute is not exact over both, or if the ledger has other sums
# than the model server has counted.
#
#   bench/bot-keys.sh | tee bench/bot-keys.txt
#
# Settings, by environment:
#   KEYS=1000 RATE=200 SECONDS_EACH=150 PORT=18600
set -euo pipefail
cd "$(dirname "$0")/.."

keys=${KEYS:-1000} rate=${RATE:-200} seconds=${SECONDS_EACH:-150} port=${PORT:-18600}
dyno=${DYNO:-$PWD/bin/dyno}
all=0-$(($(nproc) - 1))
. bench/required.sh
. bench/bot.sh
required jq curl taskset python3 redis-server "$dyno" "${dyno%/*}/dyno-bot" "$postgres/initdb"
dir=$(mktemp -d)
trap 'kill "${running[@]}" 2>/dev/null || true; wait; rm -rf "$dir"' EXIT

on_postgres "$all" $((port + 2))
on "$all" redis-server --port $((port + 3)) --bind 127.0.0.1 --dir "$dir" --save "" --appendonly yes --appendfsync everysec
on "$all" "$dyno" serve llm --listen "127.0.0.1:$port" --admin "127.0.0.1:$((port + 1))" --tokens 8 --inter-token 20ms
ready "$port" $((port + 1)) $((port + 2)) $((port + 3))
sleep 1 # PostgreSQL says so before it lets anybody in
(umask 077 && echo "postgres://bot@127.0.0.1:$((port + 2))/postgres?sslmode=disable" >"$dir/postgres.secret" && echo "$bot_key" >"$dir/token.secret")
bots=($((port + 10)) $((port + 20)))
for bot in "${bots[@]}"; do
	cat >"$dir/$bot.yaml" <<CONF
listen: 127.0.0.1:$bot
admin: 127.0.0.1:$((bot + 1))
manage_keys: true
token_secret_file: token.secret
allow_networks: [127.0.0.0/8]
upstreams:
  - {name: model, url: "http://127.0.0.1:$port/v1", models: {dyno-1: dyno-1}, price: {prompt: 500, completion: 1500}}
archive: postgres
postgres_file: postgres.secret
redis: 127.0.0.1:$((port + 3))
store_timeout: 9s # changes are made one after the other, and a commit takes up to a second here while others use the disk
CONF
	on "$all" "${dyno%/*}/dyno-bot" --config "$dir/$bot.yaml"
	ready "$bot" $((bot + 1))
done

echo "made by: KEYS=$keys RATE=$rate SECONDS_EACH=$seconds bench/bot-keys.sh"
echo "$(nproc) × $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1), Linux $(uname -r), $("$postgres/postgres" --version | tr -d "()" | cut -d" " -f2-3), $(redis-server --version | sed 's/.* v=\([0-9.]*\).*/Redis \1/'), $(date +%F)"
echo

# client ARGUMENTS: see the file; it shares no code with the gateway.
client() { python3 bench/bot-keys.py "$@" "${bots[@]}"; }
client make 16 >"$dir/keys.csv"
for bot in "${bots[@]}"; do
	load=(-q -R $((rate / 4)) -z "$((seconds + 60))s" --warmup 0 --no-server)
	"$dyno" http "${load[@]}" --json "$dir/whole-$bot" --data-file "$dir/keys.csv" -X POST -H 'Content-Type: application/json' -H 'Authorization: Bearer {{secret}}' --body "$(chat false)" \
		"http://127.0.0.1:$bot/v1/chat/completions" >/dev/null 2>>"$dir/log" &
	loads+=($!)
	"$dyno" llm "${load[@]}" --json "$dir/streamed-$bot" --max-tokens 8 --prompt hello -H "Authorization: Bearer $(tail -n 1 "$dir/keys.csv" | cut -d, -f2)" \
		"http://127.0.0.1:$bot/v1" >/dev/null 2>>"$dir/log" &
	loads+=($!)
done
running+=("${loads[@]}")
failed=0
client change "$keys" "$seconds" || failed=1
for load in "${loads[@]}"; do
	kill -0 "$load" 2>/dev/null || { echo "the load ended before the changes"; failed=1; } # nothing was under way then
done
for load in "${loads[@]}"; do
	wait "$load" || [ $? = 4 ] || failed=1
done
echo
for of in whole streamed; do
	jq -rs --arg of "$of" '[.[].variants[0]] | "load, \($of): \(map(.counts.ok) | add) answers, \(map(.figures["errors.total"].estimate) | add) failed; p99 \(map(.figures["response.p99"].estimate) | max * 1e3 | round) ms"' "$dir/$of-"*
done
errors=$(jq -s '[.[].variants[0].figures["errors.total"].estimate] | add' "$dir/whole-"* "$dir/streamed-"*)
[ "$errors" = 0 ] || failed=1
echo "result: load.failed $errors"
client sums $((port + 1)) || failed=1
exit $failed
