#!/usr/bin/env bash
# How many HTTP/1.1 requests a second of generator CPU time makes: dyno, with
# all its recording on, against wrk and whichever others are installed. nginx on
# one CPU, generators in turns on another, 64 connections, closed loop.
#
#   bench/http1-vs-wrk.sh | tee bench/http1-vs-wrk.txt
#
# Settings, by environment:
#   ROUNDS=9 SECONDS_EACH=3 CONNECTIONS=64 SERVER_CPU=0 LOAD_CPU=1 PORT=18080
#   DYNO="…/bin/dyno"  empty: leave dyno out, which tries the rest
set -euo pipefail
cd "$(dirname "$0")/.."

rounds=${ROUNDS:-9} seconds=${SECONDS_EACH:-3} connections=${CONNECTIONS:-64}
server_cpu=${SERVER_CPU:-0} load_cpu=${LOAD_CPU:-1} port=${PORT:-18080}
dyno=${DYNO-$PWD/bin/dyno}

# Where dyno's JSON holds the number of good responses.
dyno_ok='.variants[0].counts.ok'

. bench/required.sh
. bench/generator.sh
. bench/nginx.sh
required nginx wrk jq taskset ${dyno:+"$dyno"}

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
nginx_static "$dir" "$port"

url=http://127.0.0.1:$port/index.html
subjects=()

subject wrk "awk '/ requests in /{print \$1}'" '[]' wrk -t1 -c"$connections" -d"${seconds}s" "$url"
if [ -n "$dyno" ]; then
	# Exit code 4 says that the generator was the limit: here it is meant to be.
	subject dyno "jq '$dyno_ok'" '[4]' "$dyno" http -q -c "$connections" -z "${seconds}s" --warmup 0 --json - "$url"
fi
if command -v ab >/dev/null; then
	subject ab "awk '/^Complete requests:/{print \$3}'" '[]' ab -q -k -c "$connections" -t "$seconds" -n 5000000 "$url"
fi
if command -v h2load >/dev/null; then
	subject h2load "awk '/^requests:/{print \$8}'" '[]' h2load --h1 -t1 -c"$connections" -D"$seconds" "$url"
fi
if command -v oha >/dev/null; then
	subject oha "jq '[.statusCodeDistribution[]] | add'" '[]' oha --no-tui --output-format json -c "$connections" -z "${seconds}s" "$url"
fi
if command -v hey >/dev/null; then
	subject hey "awk '/\\[200\\]/{print \$2}'" '[]' hey -cpus 1 -c "$connections" -z "${seconds}s" "$url"
fi

printf '%s\n' "${subjects[@]}" | jq -s --argjson rounds "$rounds" --arg conf "$dir/nginx.conf" --arg dir "$dir" \
	--arg cpus "$server_cpu" --arg ready "127.0.0.1:$port" --arg connections "$connections" '{
	title: "HTTP/1.1, \($connections) connections, closed loop, nginx on CPU \($cpus): requests per CPU-second of the generator",
	key: $connections,
	unit: "requests", $rounds, base: "wrk",
	services: [{run: ["nginx", "-p", $dir, "-e", "stderr", "-c", $conf], $cpus, $ready}],
	subjects: .}' >"$dir/plan.json"
go build -o "$dir/pair" ./experiments/bench/pair
"$dir/pair" <"$dir/plan.json"
