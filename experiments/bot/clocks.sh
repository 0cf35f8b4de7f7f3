#!/usr/bin/env bash
# A load that two agents begin together: the clock of one is ahead by OFFSET seconds, in a time namespace. Prints how long after the
# common start each began, by dyno's own clock, and how wrong that may be:
#
#   experiments/bot/clocks.sh OFFSET
set -euo pipefail
dir=$(mktemp -d)
running=()
trap 'kill "${running[@]}" 2>/dev/null || true; wait; rm -rf "$dir"' EXIT
free() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
server=$(free) here=$(free) ahead=$(free)
dyno serve echo --http "127.0.0.1:$server" >"$dir/server.log" 2>&1 &
running+=($!)
dyno agent --listen "127.0.0.1:$here" --name here >"$dir/here.log" 2>&1 &
running+=($!)
unshare --time --monotonic "$1" dyno agent --listen "127.0.0.1:$ahead" --name ahead >"$dir/ahead.log" 2>&1 &
running+=($!)
for port in "$server" "$here" "$ahead"; do
	for ((i = 0; i < 100; i++)); do
		(: >"/dev/tcp/127.0.0.1/$port") 2>/dev/null && break
		sleep 0.1
	done
done
code=0
dyno http -q -R 500 -z 1s --warmup 200ms --agent "127.0.0.1:$here" --agent "127.0.0.1:$ahead" -o "$dir/run" "http://127.0.0.1:$server/" >"$dir/log" 2>&1 || code=$?
[ -e "$dir"/run/trials/0001-default/trial.json ] || { cat "$dir/log" "$dir/ahead.log" >&2; exit "$code"; }
python3 - "$dir/run/trials/0001-default/trial.json" <<'EOF'
import json, sys
trial = json.load(open(sys.argv[1]))
figures = {"requests": sum(agent["work"] for agent in trial["agents"])}
for agent in trial["agents"]:
    figures[agent["name"] + "_began_seconds"] = agent["start_deviation_seconds"]
    figures[agent["name"] + "_error_seconds"] = agent["clock_error_seconds"]
print(json.dumps(figures))
EOF
