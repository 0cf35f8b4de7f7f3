#!/usr/bin/env bash
# Loads a gateway whose model server has a fault, and prints what a jitter filter makes of its response times:
#
#   experiments/bot/filter.sh PROBABILITY=FAULT FLAG…
#
# The flags are those of experiments/subjects/micro, which go build -o bin/ has built.
set -euo pipefail
cd "$(dirname "$0")"
fault=$1
shift
faults=(--fault "$fault")
[ "${fault%%=*}" != 0 ] || faults=()
running=()
log=$(mktemp)
trap 'kill "${running[@]}" 2>/dev/null; wait; rm -f "$log"' EXIT
free() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
model=$(free) gateway=$(free)
dyno serve llm --listen "127.0.0.1:$model" --first-token 5ms "${faults[@]}" >>"$log" 2>&1 &
running+=($!)
./gateway.sh memory - --listen "127.0.0.1:$gateway" --upstream "http://127.0.0.1:$model/v1" --models dyno-1 >>"$log" 2>&1 &
running+=($!)
for port in "$model" "$gateway"; do
	for ((i = 0; i < 100; i++)); do
		(: >"/dev/tcp/127.0.0.1/$port") 2>/dev/null && break
		sleep 0.1
	done
done
../../bin/micro filter --url "http://127.0.0.1:$gateway/v1/chat/completions" --bearer r2-key-0123456789abcdef \
	--body '{"model":"dyno-1","max_tokens":16,"messages":[{"role":"user","content":"where is my order?"}]}' "$@"
