#!/usr/bin/env bash
# How many unary gRPC calls a second of generator CPU time makes: dyno, with all its recording
# on, against h2load and ghz, each with one CPU. The server is the fastest echo there is
# (experiments/subjects/grpcloop) on another CPU, generators in turns.
#
# They do not do the same for a call. h2load sends the bytes of one message and looks at the
# HTTP status alone. dyno reads the trailers and counts statuses; as dyno-check it also checks
# that each answer is a message of the method's type. ghz encodes and decodes every message.
#
#   bench/grpc-vs-h2load.sh | tee bench/grpc-vs-h2load.txt
#
# Settings, by environment:
#   ROUNDS=9 SECONDS_EACH=5 LOADS="64x1 8x16" (connections x calls at once on each)
#   SERVER_CPU=0 LOAD_CPU=1 PORT=18140 DYNO=…/bin/dyno GHZ=ghz (left out where there is none:
#   go install github.com/bojand/ghz/cmd/ghz@v0.120.0)
set -euo pipefail
cd "$(dirname "$0")/.."

rounds=${ROUNDS:-9} seconds=${SECONDS_EACH:-5}
server_cpu=${SERVER_CPU:-0} load_cpu=${LOAD_CPU:-1} port=${PORT:-18140}
dyno=${DYNO:-$PWD/bin/dyno} ghz=${GHZ:-ghz}
read -ra loads <<<"${LOADS:-64x1 8x16}"

# Where dyno's JSON holds the number of good responses.
dyno_ok='.variants[0].counts.ok'

. bench/required.sh
. bench/generator.sh
required h2load jq taskset "$dyno"

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
go build -o "$dir/pair" ./experiments/bench/pair
go build -o "$dir/echo" ./experiments/subjects/grpcloop
# A message with a text of 16 bytes: five bytes of gRPC, then field 1 of 16 bytes.
printf '\0\0\0\0\022\012\0200123456789abcdef' >"$dir/message"
json='{"text": "0123456789abcdef"}'
proto=services/echo/rpc/echo.proto
method=dyno.echo.v1.Echo/Echo

echo "made by: ROUNDS=$rounds SECONDS_EACH=$seconds LOADS='${loads[*]}' bench/grpc-vs-h2load.sh"
echo "$(h2load --version), ghz $(command -v "$ghz" >/dev/null && "$ghz" --version 2>&1 || echo 'not here')"
for load in "${loads[@]}"; do
	connections=${load%x*} streams=${load#*x}
	subjects=()
	subject h2load "awk '/^requests:/{print \$8}'" '[]' h2load -t1 -c"$connections" -m"$streams" -D"$seconds" \
		-d "$dir/message" -H 'content-type: application/grpc' -H 'te: trailers' "http://127.0.0.1:$port/$method"
	# Exit code 4 says that the generator was the limit: here it is meant to be.
	flags=(-q --proto "$proto" -d "$json" -c "$connections" --streams "$streams" -z "${seconds}s" --warmup 0 --json -)
	subject dyno "jq '$dyno_ok'" '[4]' "$dyno" grpc "${flags[@]}" "127.0.0.1:$port" "$method"
	subject dyno-check "jq '$dyno_ok'" '[4]' "$dyno" grpc --check "${flags[@]}" "127.0.0.1:$port" "$method"
	if command -v "$ghz" >/dev/null; then
		subject ghz "jq .statusCodeDistribution.OK" '[]' "$ghz" --insecure --proto "$proto" --call "${method/\//.}" -d "$json" \
			--connections "$connections" -c $((connections * streams)) -z "${seconds}s" --duration-stop ignore --cpus 1 -O json "127.0.0.1:$port"
	fi
	echo
	printf '%s\n' "${subjects[@]}" | jq -s --argjson rounds "$rounds" --arg cpus "$server_cpu" --arg echo "$dir/echo" \
		--arg ready "127.0.0.1:$port" --arg key "$load" --arg connections "$connections" --arg streams "$streams" '{
		title: "Unary gRPC calls with a text of 16 bytes, \($connections) connections × \($streams) at once, closed loop, echo on CPU \($cpus): calls per CPU-second of the generator",
		$key, unit: "calls", $rounds, base: "h2load",
		services: [{run: [$echo, "--listen", $ready], $cpus, $ready}],
		subjects: .}' >"$dir/plan.json"
	"$dir/pair" <"$dir/plan.json"
done
