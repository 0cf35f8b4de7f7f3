#!/usr/bin/env bash
# What the arrival clock is worth and what it costs.
#
# Worth: the generator's CPU is taken away for 5 ms, 20 times a second, and its service
# times are held against the kernel's time stamps of the packets. Needs CAP_NET_RAW and
# CAP_SYS_NICE.
#
# Cost: the generator's CPU time per request with the clock and without, in pairs of
# short runs: the medians of 60, and of the ratio with its interval. And the same with
# whole runs of dyno against nginx, which a busy machine blurs.
#
#   bench/arrival-clock.sh | tee bench/arrival-clock.txt
#
# Settings, by environment:
#   ROUNDS=12 SECONDS_EACH=3 CONNECTIONS=64 RATE=10000 SERVER_CPU=0 LOAD_CPU=1 PORT=18080
#   DYNO=…/bin/dyno  PARTS="stalls cost nginx"
set -euo pipefail
cd "$(dirname "$0")/.."

rounds=${ROUNDS:-12} seconds=${SECONDS_EACH:-3} connections=${CONNECTIONS:-64} rate=${RATE:-10000}
server_cpu=${SERVER_CPU:-0} load_cpu=${LOAD_CPU:-1} port=${PORT:-18080}
dyno=${DYNO-$PWD/bin/dyno} parts=${PARTS:-stalls cost nginx}

. bench/required.sh
. bench/nginx.sh
required nginx jq taskset "$dyno"

if [[ $parts == *stalls* ]]; then
	PATH=${dyno%/*}:$PATH go run ./experiments/dyno-calibrate --only stalls 2>/dev/null
fi
if [[ $parts == *cost* ]]; then
	echo
	go test -run '^$' -bench ArrivalClock -benchtime 1x ./load/engine
fi
[[ $parts == *nginx* ]] || exit 0
echo

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
nginx_static "$dir" "$port"
go build -o "$dir/pair" ./experiments/bench/pair

url=http://127.0.0.1:$port/index.html
compare() { # KEY TITLE FLAGS…
	local key=$1 title=$2
	shift 2
	for clock in read arrival; do
		# Exit code 4 says that the generator was the limit: in a closed loop it may be.
		jq -n --arg name "$clock" --arg cpus "$load_cpu" \
			'{$name, $cpus, count: "jq .variants[0].counts.ok", accept: [4], run: $ARGS.positional}' \
			--args -- "$dyno" http -q --clock "$clock" "$@" -z "${seconds}s" --warmup 0 --json - "$url"
	done | jq -s --arg key "$key" --arg title "$title: requests per CPU-second of the generator, by clock" --argjson rounds "$rounds" \
		--arg conf "$dir/nginx.conf" --arg dir "$dir" --arg cpus "$server_cpu" --arg ready "127.0.0.1:$port" '{
		$title, $key, unit: "requests", $rounds, base: "read",
		services: [{run: ["nginx", "-p", $dir, "-e", "stderr", "-c", $conf], $cpus, $ready}],
		subjects: .}' >"$dir/plan.json"
	"$dir/pair" <"$dir/plan.json"
}
compare closed "HTTP/1.1, closed loop, $connections connections, nginx on CPU $server_cpu" -c "$connections"
echo
compare open "HTTP/1.1, open loop, $rate/s, nginx on CPU $server_cpu" -R "$rate"
