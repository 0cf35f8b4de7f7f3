#!/usr/bin/env bash
# How many HTTP/2 requests a second of generator CPU time makes: dyno, with all its
# recording on, against h2load with one thread. GET of 100 bytes, closed loop. nginx with
# one process on one CPU, generators in turns on another.
#
#   bench/http2-vs-h2load.sh | tee bench/http2-vs-h2load.txt
#   bench/http2-vs-h2load.sh tls      clear: without TLS, by prior knowledge; tls: TLS 1.3;
#                                     default: both
#
# Settings, by environment:
#   ROUNDS=9 SECONDS_EACH=3 LOADS="64x1 8x16" (connections x streams)
#   SERVER_CPU=0 LOAD_CPU=1 PORT=18100 (and the next one) DYNO=…/bin/dyno
set -euo pipefail
cd "$(dirname "$0")/.."

rounds=${ROUNDS:-9} seconds=${SECONDS_EACH:-3}
server_cpu=${SERVER_CPU:-0} load_cpu=${LOAD_CPU:-1} port=${PORT:-18100}
dyno=${DYNO:-$PWD/bin/dyno}
read -ra loads <<<"${LOADS:-64x1 8x16}"
[ $# -gt 0 ] || set -- clear tls
for mode; do
	[[ $mode == clear || $mode == tls ]] || {
		echo "http2-vs-h2load: $mode: want clear or tls" >&2
		exit 2
	}
done

# Where dyno's JSON holds the number of good responses.
dyno_ok='.variants[0].counts.ok'

. bench/required.sh
. bench/generator.sh
. bench/nginx.sh
required nginx h2load openssl jq taskset "$dyno"

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
tls=$(nginx_tls "$dir" 1.3 ec)
nginx_file "$dir" 100 <<CONF
		listen 127.0.0.1:$port http2 backlog=4096;
		listen 127.0.0.1:$((port + 1)) ssl http2 backlog=4096;
$tls
CONF
go build -o "$dir/pair" ./experiments/bench/pair

echo "made by: ROUNDS=$rounds SECONDS_EACH=$seconds LOADS='${loads[*]}' bench/http2-vs-h2load.sh $*"
echo "$(h2load --version), $(nginx -v 2>&1 | sed 's/.*: //'), $(openssl version | cut -d' ' -f1,2)"
for mode; do
	url=http://127.0.0.1:$port/index.html
	name='HTTP/2 without TLS'
	if [ "$mode" = tls ]; then
		url=https://127.0.0.1:$((port + 1))/index.html
		name='HTTP/2 over TLS 1.3 (AES-128-GCM)'
	fi
	for load in "${loads[@]}"; do
		connections=${load%x*} streams=${load#*x}
		subjects=()
		subject h2load "awk '/^requests:/{print \$8}'" '[]' h2load -t1 -c"$connections" -m"$streams" -D"$seconds" "$url"
		# Exit code 4 says that the generator was the limit: here it is meant to be.
		flags=(--http2 -c "$connections" --streams "$streams" -z "${seconds}s" --warmup 0)
		[ "$mode" = clear ] || flags+=(--insecure) # h2load checks no certificate, either
		subject dyno "jq '$dyno_ok'" '[4]' "$dyno" http -q "${flags[@]}" --json - "$url"
		echo
		printf '%s\n' "${subjects[@]}" | jq -s --argjson rounds "$rounds" --arg conf "$dir/nginx.conf" --arg dir "$dir" \
			--arg cpus "$server_cpu" --arg ready "127.0.0.1:$port" --arg name "$name" --arg key "$mode.$load" \
			--arg connections "$connections" --arg streams "$streams" '{
			title: "\($name), \($connections) connections × \($streams) streams, GET of 100 bytes, closed loop, nginx on CPU \($cpus): requests per CPU-second of the generator",
			$key, unit: "requests", $rounds, base: "h2load",
			services: [{run: ["nginx", "-p", $dir, "-e", "stderr", "-c", $conf], $cpus, $ready}],
			subjects: .}' >"$dir/plan.json"
		"$dir/pair" <"$dir/plan.json"
	done
done
