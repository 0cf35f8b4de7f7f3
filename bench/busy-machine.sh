#!/usr/bin/env bash
# What load generators print on a busy machine: a server that answers 5 ms after a request arrives, next to
# two programs that take a fifth of one CPU each. dyno, wrk and whichever others are installed, in turns.
# Also the marks that dyno puts on its figures. dyno itself is the server, since its delay is known.
#
#   bench/busy-machine.sh | tee bench/busy-machine.txt
#
# Settings, by environment:
#   ROUNDS=10 SECONDS_EACH=3 CONNECTIONS=16 DYNO="…/bin/dyno"
set -euo pipefail
cd "$(dirname "$0")/.."

rounds=${ROUNDS:-10} seconds=${SECONDS_EACH:-3} connections=${CONNECTIONS:-16}
dyno=${DYNO-$PWD/bin/dyno}
. bench/required.sh
required wrk jq taskset python3 "$dyno"

dir=$(mktemp -d) pids=()
trap 'kill "${pids[@]}" 2>/dev/null || true; rm -rf "$dir"' EXIT
"$dyno" __oracle delay --delay 5ms >"$dir/server" 2>&1 &
pids+=($!)
for cpu in 0 1; do
	taskset -c "$cpu" python3 -c '
import time
while True:
    begun = time.process_time()
    while time.process_time() - begun < 0.02:
        pass
    time.sleep(0.08)' &
	pids+=($!)
done
address=
while [ -z "$address" ]; do
	sleep 0.1
	address=$(grep -om1 '127\.0\.0\.1:[0-9]*' "$dir/server" || true)
done
url=http://$address/

# Each prints requests per second, p50 and p99 in milliseconds.
load_dyno() {
	"$dyno" http -q -c "$connections" -z "${seconds}s" --json "$dir/dyno.json" "$url" >"$dir/screen" 2>/dev/null || [ $? -eq 4 ] # it says what disturbed it
	sed -n 's/^  requests\/s  *\(\S*\) .*/\1/p; s/^  latency  *//p' "$dir/screen" >>"$dir/marks"
	jq -r '.variants[0] | [.throughput.estimate, .service.p50_seconds * 1e3, .service.p99_seconds * 1e3] | @tsv' "$dir/dyno.json"
}
load_wrk() {
	wrk -t1 -c"$connections" -d"${seconds}s" --latency "$url" |
		awk '$1 == "50%" {a = $2 + 0} $1 == "99%" {b = $2 + 0} /^Requests\/sec:/ {print $2, a, b}'
}
load_oha() {
	oha --no-tui --output-format json -c "$connections" -z "${seconds}s" "$url" |
		jq -r '[.summary.requestsPerSec, .latencyPercentiles.p50 * 1e3, .latencyPercentiles.p99 * 1e3] | @tsv'
}
load_hey() {
	hey -c "$connections" -z "${seconds}s" "$url" |
		awk '/Requests\/sec:/ {r = $2} /50%+ in/ {a = $3 * 1e3} /99%+ in/ {print r, a, $3 * 1e3}'
}

subjects=(dyno wrk)
for other in oha hey; do
	! command -v "$other" >/dev/null || subjects+=("$other")
done
for ((round = 1; round <= rounds; round++)); do
	for subject in "${subjects[@]}"; do
		read -r -a figures < <("load_$subject")
		echo "$subject ${figures[*]}" >>"$dir/figures"
	done
done

# summary SUBJECT COLUMN: the median, the smallest and the largest.
summary() {
	awk -v s="$1" -v c="$2" '$1 == s {print $c}' "$dir/figures" | sort -g |
		awk '{v[NR] = $1} END {printf "%.4g (%.4g … %.4g)", (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2, v[1], v[NR]}'
}
echo "a server with a delay of 5 ms, $connections connections, two programs that take a fifth of each CPU"
echo "$(nproc) × $(sed -n 's/^model name\s*: //p;T;q' /proc/cpuinfo), Linux $(uname -r | cut -d- -f1), $(date +%F)"
echo "$rounds rounds, interleaved; median, smallest and largest"
for subject in "${subjects[@]}"; do
	echo "result: $subject.requests_per_second $(summary "$subject" 2)"
	echo "result: $subject.p50_ms $(summary "$subject" 3)"
	echo "result: $subject.p99_ms $(summary "$subject" 4)"
done
echo
echo "dyno's requests/s and latency, as printed:"
cat "$dir/marks"
