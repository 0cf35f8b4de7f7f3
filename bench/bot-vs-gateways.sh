#!/usr/bin/env bash
# How many chats a second of CPU time of a gateway carries from users to the same model server:
# dyno-bot, with authentication, limits of three resources and a ledger in SQLite, against
# LiteLLM's proxy (with its master key, without a database) and Portkey's gateway (which knows no
# keys). Gateways in turns on one CPU, model server (dyno serve llm, no delays, 16 tokens an answer)
# and generator on the other, 16 connections, closed loop; whole answers first, the same asked by wrk, streams
# then, and at last whole answers of a model that is behind Anthropic's API: a second dyno-bot, on the generator's CPU, has it.
#
#   bench/bot-vs-gateways.sh | tee bench/bot-vs-gateways.txt
#
# The peers are installed below $PEERS, if they are not there: a virtual environment with
# litellm[proxy] from PyPI, and @portkey-ai/gateway from npm.
#
# Settings, by environment:
#   ROUNDS=3 SECONDS_EACH=4 CONNECTIONS=16 SERVER_CPU=0 LOAD_CPU=1 PORT=18200 PEERS=/tmp/dyno-llm-peers
set -euo pipefail
cd "$(dirname "$0")/.."

rounds=${ROUNDS:-3} seconds=${SECONDS_EACH:-4} connections=${CONNECTIONS:-16}
server_cpu=${SERVER_CPU:-0} load_cpu=${LOAD_CPU:-1} port=${PORT:-18200} peers=${PEERS:-/tmp/dyno-llm-peers}
dyno=${DYNO:-$PWD/bin/dyno}

. bench/required.sh
. bench/bot.sh
required jq curl wrk taskset python3 node npm "$dyno" "${dyno%/*}/dyno-bot"
if [ ! -e "$peers/venv/bin/litellm" ]; then
	python3 -m venv "$peers/venv"
	"$peers/venv/bin/pip" install -q 'litellm[proxy]'
fi
portkey=node_modules/@portkey-ai/gateway
if [ ! -e "$peers/portkey/$portkey" ]; then
	mkdir -p "$peers/portkey"
	npm install --prefix "$peers/portkey" --no-audit --no-fund @portkey-ai/gateway >&2
fi

dir=$(mktemp -d)
trap 'kill "${running[@]}" 2>/dev/null || true; wait; rm -rf "$dir"' EXIT
model=$port bot=$((port + 10)) litellm=$((port + 20)) other=$((port + 30)) anthropic=$((port + 40))
{
	bot_config "$bot" "$model" "$dir/bot.db" | sed '/^upstreams:/,/^max_concurrent/d'
	cat <<CONF
upstreams:
  - {name: model, url: "http://127.0.0.1:$model/v1", models: {dyno-1: dyno-1}, max_concurrent: 20000, price: {prompt: 500, completion: 1500}}
  - {name: anthropic, dialect: anthropic, url: "http://127.0.0.1:$anthropic/v1", key_file: "$dir/key", models: {claude: dyno-1}, max_concurrent: 20000, price: {prompt: 500, completion: 1500}}
max_concurrent: 20000
CONF
} >"$dir/bot.yaml"
(umask 077 && echo "$bot_key" >"$dir/key")
bot_config "$anthropic" "$model" "$dir/anthropic.db" >"$dir/anthropic.yaml"
cat >"$dir/litellm.yaml" <<CONF
model_list:
  - model_name: dyno-1
    litellm_params: {model: openai/dyno-1, api_base: "http://127.0.0.1:$model/v1", api_key: none}
  - model_name: claude
    litellm_params: {model: anthropic/dyno-1, api_base: "http://127.0.0.1:$anthropic", api_key: $bot_key}
general_settings: {master_key: sk-$bot_key}
CONF

on "$load_cpu" "$dyno" serve llm --listen "127.0.0.1:$model"
on "$load_cpu" "${dyno%/*}/dyno-bot" --config "$dir/anthropic.yaml"
on "$server_cpu" env GOMAXPROCS=1 "${dyno%/*}/dyno-bot" --config "$dir/bot.yaml"
bot_process=$started
on "$server_cpu" env HOME="$dir" "$peers/venv/bin/litellm" --config "$dir/litellm.yaml" --host 127.0.0.1 --port "$litellm"
litellm_process=$started
on "$server_cpu" node "$peers/portkey/$portkey/build/start-server.js" --port="$other" --headless
other_process=$started
ready "$model" "$anthropic" "$bot" "$litellm" "$other"

# ask NAME PROCESS URL BODY HEADER…: loads a gateway, and says how many answers were good and what
# CPU time its process took.
cat >"$dir/ask" <<SH
#!/usr/bin/env bash
set -euo pipefail
cd "$PWD"
. bench/bot.sh
process=\$1 kind=\$2 url=\$3 body=\$4
shift 4
headers=()
for h; do headers+=(-H "\$h"); done
load=("$dyno" http -X POST -H 'Content-Type: application/json' --body "\$body" "\${headers[@]}")
[ "\$kind" != streamed ] || { load=("$dyno" llm --model dyno-1 --max-tokens 16 --prompt "How long does light from the sun take to reach us, and why?" "\${headers[@]}"); url=\${url%/chat/completions}; }
before=\$(cpu_of "\$process")
if [ "\$kind" = wrk ]; then
	{
		printf 'wrk.method = "POST"\nwrk.body = [[%s]]\nwrk.headers["Content-Type"] = "application/json"\n' "\$body"
		for h; do printf 'wrk.headers["%s"] = "%s"\n' "\${h%%: *}" "\${h#*: }"; done
	} >"$dir/wrk.lua"
	wrk -t 1 -c $connections -d ${seconds}s -s "$dir/wrk.lua" "\$url" | awk '
		/ requests in / {all = \$1} /Non-2xx/ {bad = \$NF} /Socket errors/ {gsub(/[^0-9 ]/, ""); for (i = 1; i <= NF; i++) bad += \$i}
		END {printf "{\"variants\": [{\"counts\": {\"ok\": %d}, \"errors\": {\"total\": %d}, \"service\": {}}]}", all - bad, bad}' >"$dir/out.json"
else
	"\${load[@]}" -q -c $connections -z ${seconds}s --warmup 0 --json "$dir/out.json" "\$url" >/dev/null || [ \$? = 4 ]
fi
after=\$(cpu_of "\$process")
jq --argjson cpu "\$(echo "\$after - \$before" | bc)" --argjson rss "\$(awk '/^VmRSS:/ {print \$2 * 1024}' "/proc/\$process/status")" \
	'.variants[0] | {ok: .counts.ok, errors: (.figures["errors.total"].estimate? // .errors.total), cpu: \$cpu, p50: .figures["service.p50"].estimate, p99: .figures["service.p99"].estimate, rss: \$rss}' "$dir/out.json"
SH
chmod +x "$dir/ask"

subject() { # KIND NAME PROCESS URL HEADER…
	local kind=$1 name=$2 process=$3 url=$4
	shift 4
	jq -n --arg name "$name" --arg cpus "$load_cpu" --arg log "$dir/$kind.$name" --args \
		'{$name, $cpus, count: "tee -a \($log) | jq .ok", cpu: "jq .cpu", run: $ARGS.positional}' -- \
		"$dir/ask" "$process" "$kind" "$url/v1/chat/completions" "$(chat false "$([ "$kind" != translated ] || echo claude)")" "$@"
}
go build -o "$dir/pair" ./experiments/bench/pair

echo "made by: ROUNDS=$rounds SECONDS_EACH=$seconds CONNECTIONS=$connections bench/bot-vs-gateways.sh"
echo "litellm $("$peers/venv/bin/pip" show litellm 2>/dev/null | sed -n 's/^Version: //p'), @portkey-ai/gateway $(jq -r .version "$peers/portkey/$portkey/package.json"), node $(node --version)"
for kind in whole wrk streamed translated; do
	# Portkey's provider openai does not stream with this Node.js (TypeError: immutable). Another one of the
	# same protocol may; where its streams are none that clients can read to their end, it is left out.
	echo
	names=(litellm portkey dyno-bot)
	if [ "$kind" = streamed ] && ! "$dyno" llm -q -c 1 -n 3 --warmup 0 --model dyno-1 --max-tokens 16 --prompt hello -H "x-portkey-provider: together-ai" \
		-H "x-portkey-custom-host: http://127.0.0.1:$model" -H "Authorization: Bearer none" "http://127.0.0.1:$other/v1" >/dev/null 2>>"$dir/log"; then
		echo "portkey is left out: its streams do not end as they should"
		names=(litellm dyno-bot)
	fi
	[ "$kind" != translated ] || names=(litellm dyno-bot)
	{
		subject "$kind" litellm "$litellm_process" "http://127.0.0.1:$litellm" "Authorization: Bearer sk-$bot_key"
		[ ${#names[@]} -eq 2 ] || subject "$kind" portkey "$other_process" "http://127.0.0.1:$other" "x-portkey-provider: together-ai" "x-portkey-custom-host: http://127.0.0.1:$model" "Authorization: Bearer none"
		subject "$kind" dyno-bot "$bot_process" "http://127.0.0.1:$bot" "Authorization: Bearer $bot_key"
	} | jq -s --argjson rounds "$rounds" --arg kind "$kind" --arg c "$connections" '{
		title: "Chats with \({wrk: "whole", translated: "whole"}[$kind] // $kind) answers of 16 tokens, \($c) connections, closed loop\({wrk: ", asked by wrk", translated: ", of a model behind the API of Anthropic"}[$kind] // ""): chats per CPU-second of the gateway",
		key: $kind, unit: "chats", $rounds, base: "litellm", services: [], subjects: .}' >"$dir/plan.json"
	"$dir/pair" <"$dir/plan.json"
	echo
	for name in "${names[@]}"; do
		[ "$kind" = wrk ] && jq -rs --arg name "$name" '"\($name): \(map(.errors) | add) errors"' "$dir/$kind.$name" && continue
		jq -rs --arg name "$name" '"\($name): p50 \(map(.p50 // 0) | sort | .[length/2|floor] * 1e5 | round / 100) ms, p99 \(map(.p99 // infinite) | sort | .[length/2|floor] | if isinfinite then "unknown (too few answers)" else "\(. * 1e5 | round / 100) ms" end), \(map(.errors) | add) errors, \(last.rss / 1e6 | round) MB resident"' "$dir/$kind.$name"
	done
	[ ${#names[@]} -eq 2 ] || jq -nr --arg kind "$kind" --slurpfile a "$dir/$kind.dyno-bot" --slurpfile b "$dir/$kind.portkey" '
		[range($a | length) | ($a[.].ok / $a[.].cpu) / ($b[.].ok / $b[.].cpu)] | sort |
		"result: \($kind).dyno-bot.portkey-ratio \(.[length/2|floor] * 100 | round / 100) (\(.[0] * 100 | round / 100) … \(.[-1] * 100 | round / 100))"'
done
echo
echo "in dyno-bot's ledger: $(metric $((bot + 1)) bot_archive_records_total) records; refused by limits: $(metric $((bot + 1)) bot_limited_total)"
