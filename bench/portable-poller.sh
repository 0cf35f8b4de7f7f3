#!/usr/bin/env bash
# How many HTTP/1.1 requests a second of generator CPU time makes with the poller of macOS and
# Windows, built on Linux by the tag portable, against epoll. nginx on one CPU, generators in turns on
# another, closed loop. Both end a response by the read, because only Linux has arrival stamps.
#
#   bench/portable-poller.sh | tee bench/portable-poller.txt
#
# Settings, by environment:
#   ROUNDS=9 SECONDS_EACH=2 CONNECTIONS="8 64 512" SERVER_CPU=0 LOAD_CPU=1 PORT=18080
set -euo pipefail
cd "$(dirname "$0")/.."

rounds=${ROUNDS:-9} seconds=${SECONDS_EACH:-2} server_cpu=${SERVER_CPU:-0} load_cpu=${LOAD_CPU:-1} port=${PORT:-18080}

. bench/required.sh
. bench/generator.sh
. bench/nginx.sh
required nginx jq taskset

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
nginx_static "$dir" "$port"
go build -o "$dir/pair" ./experiments/bench/pair
CGO_ENABLED=0 go build -o "$dir/epoll" ./cmd/dyno
CGO_ENABLED=0 go build -tags portable -o "$dir/portable" ./cmd/dyno

for connections in ${CONNECTIONS:-8 64 512}; do
	subjects=()
	for poller in epoll portable; do
		# Exit code 4 says that the generator was the limit: here it may be.
		subject "$poller" 'jq .variants[0].counts.ok' '[4]' "$dir/$poller" http -q -c "$connections" --clock read \
			-z "${seconds}s" --warmup 0 --json - "http://127.0.0.1:$port/index.html"
	done
	printf '%s\n' "${subjects[@]}" | jq -s --argjson rounds "$rounds" --arg conf "$dir/nginx.conf" --arg dir "$dir" \
		--arg cpus "$server_cpu" --arg ready "127.0.0.1:$port" --arg connections "$connections" '{
		title: "HTTP/1.1, \($connections) connections, closed loop, nginx on CPU \($cpus): requests per CPU-second of the generator, by poller",
		key: $connections, unit: "requests", $rounds, base: "epoll",
		services: [{run: ["nginx", "-p", $dir, "-e", "stderr", "-c", $conf], $cpus, $ready}],
		subjects: .}' >"$dir/plan.json"
	"$dir/pair" <"$dir/plan.json"
	echo
done
