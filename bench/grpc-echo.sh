#!/usr/bin/env bash
# How many unary calls a second of the server's CPU time makes: the echo over gRPC in its Go
# programs (services/echo/rpc/go), and on an event loop (experiments/subjects/grpcloop). The
# generator is h2load with one thread, which shares no code with dyno; it knows nothing of gRPC,
# and counts what was answered with status 200. A program is checked beforehand: one call must be
# answered with what it sent.
#
#   bench/grpc-echo.sh | tee bench/grpc-echo.txt
#
# Settings, by environment:
#   ROUNDS=9 SECONDS_EACH=5 LOADS="100x1 8x16" (connections x calls at once on each)
#   PROGRAMS="plain tuned connect loop" BASE=plain
#   SERVER_CPU=0 LOAD_CPU=1 PORT=18120 (and those after it)
# A program that is not in Go is built by its own script, if this machine has what that needs.
set -euo pipefail
cd "$(dirname "$0")/.."

rounds=${ROUNDS:-9} seconds=${SECONDS_EACH:-5}
server_cpu=${SERVER_CPU:-0} load_cpu=${LOAD_CPU:-1} port=${PORT:-18120}
read -ra loads <<<"${LOADS:-100x1 8x16}"
read -ra programs <<<"${PROGRAMS:-plain tuned connect loop}"
base=${BASE:-plain}

. bench/required.sh
required h2load curl jq taskset

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
go build -o "$dir/pair" ./experiments/bench/pair
# A message with a text of 16 bytes: five bytes of gRPC, then field 1 of 16 bytes.
printf '\0\0\0\0\022\012\0200123456789abcdef' >"$dir/message"
method=dyno.echo.v1.Echo/Echo
headers=(-H 'content-type: application/grpc' -H 'te: trailers')

# command_of NAME: prints the command that runs a program; fails if it cannot be built here.
command_of() {
	local folder=services/echo/rpc/go/$1
	[ "$1" != loop ] || folder=experiments/subjects/grpcloop
	if [ -d "$folder" ]; then
		go build -o "$dir/$1" "./$folder" && echo "$dir/$1"
	else
		"services/echo/rpc/${1%%-*}/build.sh" "$1" | tail -n 1
	fi
}

names=() commands=()
for name in "${programs[@]}"; do
	if command=$(command_of "$name"); then
		names+=("$name") commands+=("$command")
	else
		echo "left out: $name"
	fi
done

echo "made by: ROUNDS=$rounds SECONDS_EACH=$seconds LOADS='${loads[*]}' PROGRAMS='${programs[*]}' bench/grpc-echo.sh"
echo "$(h2load --version), $(go version | cut -d' ' -f3)"
for load in "${loads[@]}"; do
	connections=${load%x*} streams=${load#*x}
	subjects=()
	for i in "${!names[@]}"; do
		listen=127.0.0.1:$((port + i))
		read -ra run <<<"${commands[$i]} --listen $listen"
		subjects+=("$(jq -n --arg name "${names[$i]}" --arg load_cpu "$load_cpu" --arg server_cpu "$server_cpu" --arg ready "$listen" \
			--arg c "$connections" --arg m "$streams" --arg d "$seconds" --arg body "$dir/message" --arg url "http://$listen/$method" '{
			$name, cpus: $load_cpu, count: "awk \u0027/^requests:/{print $8}\u0027",
			run: (["h2load", "-t1", "-c", $c, "-m", $m, "-D", $d, "-d", $body] + ["-H", "content-type: application/grpc", "-H", "te: trailers"] + [$url]),
			under: {run: $ARGS.positional, cpus: $server_cpu, $ready}}' --args -- "${run[@]}")")
	done
	# Each answers what it was sent, before it is measured.
	if [ "$load" = "${loads[0]}" ]; then
		for i in "${!names[@]}"; do
			listen=127.0.0.1:$((port + i))
			read -ra run <<<"${commands[$i]} --listen $listen"
			"${run[@]}" >"$dir/ready" &
			server=$!
			for _ in {1..100}; do
				grep -q listening "$dir/ready" && break
				sleep 0.1
			done
			code=0
			curl -s --http2-prior-knowledge "${headers[@]}" --data-binary "@$dir/message" -o "$dir/answer" "http://$listen/$method" || code=$?
			kill "$server"
			wait "$server" || true
			cmp -s "$dir/message" "$dir/answer" || {
				echo "grpc-echo: ${names[$i]} does not answer what it was sent (curl: exit code $code)" >&2
				exit 1
			}
		done
	fi
	echo
	printf '%s\n' "${subjects[@]}" | jq -s --argjson rounds "$rounds" --arg base "$base" --arg key "$load" \
		--arg c "$connections" --arg m "$streams" --arg cpu "$server_cpu" '{
		title: "gRPC echo of 16 bytes, \($c) connections × \($m) calls at once, closed loop by h2load, server on CPU \($cpu): calls per CPU-second of the server",
		$key, unit: "calls", $rounds, $base, services: [], subjects: .}' >"$dir/plan.json"
	"$dir/pair" <"$dir/plan.json"
done
