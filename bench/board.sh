#!/usr/bin/env bash
# What the board costs the generator: CPU time per request with the board on a terminal, over that with a
# row a second, in turns. nginx on one CPU, dyno on another, 64 connections.
#
#   bench/board.sh | tee bench/board.txt
#
# Settings, by environment:
#   ROUNDS=8 SECONDS_EACH=4 SERVER_CPU=0 LOAD_CPU=1 PORT=18080 DYNO="…/bin/dyno"
set -euo pipefail
cd "$(dirname "$0")/.."

rounds=${ROUNDS:-8} seconds=${SECONDS_EACH:-4} port=${PORT:-18080}
dyno=${DYNO-$PWD/bin/dyno}
. bench/required.sh
. bench/nginx.sh
required nginx jq curl script taskset "$dyno"

dir=$(mktemp -d)
trap 'kill "${nginx-}" 2>/dev/null || true; rm -rf "$dir"' EXIT
nginx_static "$dir" "$port"
taskset -c "${SERVER_CPU:-0}" nginx -p "$dir" -e stderr -c "$dir/nginx.conf" &
nginx=$!
url=http://127.0.0.1:$port/index.html
curl -s --retry 20 --retry-connrefused --retry-delay 1 -o /dev/null "$url"

# cpu FLAG…: microseconds of the generator's CPU time per request.
cpu() {
	TERM=xterm script -qec "stty cols 120 rows 40; '$dyno' http $* -c 64 -z ${seconds}s --cpus ${LOAD_CPU:-1} --json '$dir/run.json' $url" /dev/null >/dev/null || [ $? -eq 4 ] # it was the limit, as it is meant to be
	jq '.variants[0].figures["generator.cpu_per_request"].estimate * 1e6' "$dir/run.json"
}
for ((round = 1; round <= rounds; round++)); do
	echo "$(cpu) $(cpu --no-tui)"
done >"$dir/figures"

# summary EXPRESSION: of each round's $1 (board) and $2 (rows), the median, the smallest and the largest.
summary() {
	awk "{print $1}" "$dir/figures" | sort -g |
		awk '{v[NR] = $1} END {printf "%.4g (%.4g … %.4g)", (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2, v[1], v[NR]}'
}
echo "CPU time of the generator per request, in µs: with the board, and with a row a second"
echo "$(nproc) × $(sed -n 's/^model name\s*: //p;T;q' /proc/cpuinfo), Linux $(uname -r | cut -d- -f1), $(date +%F)"
echo "$rounds rounds, interleaved; median, smallest and largest"
echo "result: board $(summary '$1')"
echo "result: rows $(summary '$2')"
echo "result: ratio $(summary '$1 / $2')"
