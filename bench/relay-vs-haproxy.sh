#!/usr/bin/env bash
# How many 1 KiB exchanges a second of relay CPU time forwards: each model of
# dyno's relay against HAProxy in TCP mode. The relay alone on one CPU, started
# afresh for each run; generator and echo server on another; closed loop.
#
#   bench/relay-vs-haproxy.sh | tee bench/relay-vs-haproxy.txt
#
# Settings, by environment:
#   ROUNDS=5 SECONDS_EACH=5 CONNECTIONS="64 100" MODELS="epoll goroutine pool pinned"
#   RELAY_CPU=0 LOAD_CPU=1 PORT=18090 (and the next one)
#   POOL_WORKERS=  more flags for the pool model, as "--workers 128"
set -euo pipefail
cd "$(dirname "$0")/.."

rounds=${ROUNDS:-5} seconds=${SECONDS_EACH:-5}
relay_cpu=${RELAY_CPU:-0} load_cpu=${LOAD_CPU:-1}
port=${PORT:-18090}
echo_addr=127.0.0.1:$port relay_addr=127.0.0.1:$((port + 1))
dyno=${DYNO:-$PWD/bin/dyno}
read -ra models <<<"${MODELS-epoll goroutine pool pinned}"
read -ra pool_flags <<<"${POOL_WORKERS-}"

# Where dyno's JSON holds the number of good exchanges.
dyno_ok='.variants[0].counts.ok'

. bench/required.sh
required haproxy jq taskset "$dyno"

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
go build -o "$dir/pair" ./experiments/bench/pair
cat >"$dir/haproxy.cfg" <<CONF
global
	nbthread 1
	maxconn 4096
defaults
	mode tcp
	timeout connect 5s
	timeout client 1h
	timeout server 1h
listen relay
	bind $relay_addr
	server echo $echo_addr
CONF

for connections in ${CONNECTIONS:-64 100}; do
	subjects=()
	subject() { # NAME RELAY-COMMAND…
		local name=$1
		shift
		# Exit code 4 says that the generator was the limit, or the machine noisy;
		# what counts here is the relay's CPU time per exchange.
		subjects+=("$(jq -n --arg name "$name" --arg cpus "$load_cpu" --arg count "jq '$dyno_ok'" \
			--arg relay_cpu "$relay_cpu" --arg ready "$relay_addr" --arg dyno "$dyno" --arg c "$connections" \
			--arg z "${seconds}s" '{$name, $cpus, $count, accept: [4],
			run: [$dyno, "tcp", "-q", "-c", $c, "--payload", "1KiB", "-z", $z, "--warmup", "0", "--json", "-", $ready],
			under: {run: $ARGS.positional, cpus: $relay_cpu, $ready}}' --args -- "$@")")
	}
	subject haproxy haproxy -db -q -f "$dir/haproxy.cfg"
	for model in ${models[@]+"${models[@]}"}; do
		flags=()
		[ "$model" != pool ] || flags=(${pool_flags[@]+"${pool_flags[@]}"})
		subject "$model" "$dyno" serve relay --listen "$relay_addr" --to "$echo_addr" --model "$model" ${flags[@]+"${flags[@]}"}
	done
	printf '%s\n' "${subjects[@]}" | jq -s --argjson rounds "$rounds" --arg dyno "$dyno" --arg cpus "$load_cpu" \
		--arg relay_cpu "$relay_cpu" --arg ready "$echo_addr" --arg c "$connections" '{
		title: "TCP relay on CPU \($relay_cpu), \($c) connections, 1 KiB there and back: exchanges per CPU-second of the relay",
		key: $c,
		unit: "exchanges", $rounds, base: "haproxy",
		services: [{run: [$dyno, "serve", "echo", "--tcp", $ready], $cpus, $ready}],
		subjects: .}' >"$dir/plan.json"
	"$dir/pair" <"$dir/plan.json"
	echo
done
