#!/usr/bin/env bash
# Does the plain command, dyno compare --a … --b … URL, find a difference, and none where there is none?
# The second of two servers takes some more CPU time for each request. Next to them runs a program that takes a share
# of one CPU, or none. The columns say what the pilot chose, what the verdict is, and how long everything took.
#
#   bench/compare-noise.sh | tee bench/compare-noise.txt
#
# Settings, by environment: TRIES="8%:0.3:10 0%:0.3:20 6%:0:2", each a difference, the share of a CPU that the other
# program takes, and how often; DYNO=…/dyno; ALONE=COMMAND (runs each try, where others measure on the same machine, as in
# "flock FILE"); EARLIER=FILE, whose tries count, so that the rest can be made later. Needs jq, python3 and two CPUs.
set -euo pipefail
cd "$(dirname "$0")/.."
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
dyno=${DYNO:-}
[ -n "$dyno" ] || { dyno=$dir/dyno; go build -trimpath -o "$dyno" ./cmd/dyno; }
export dir dyno

try() {
	local slow=$1 hog=$2 pid= code=0 begun
	if [ "$hog" != 0 ]; then
		python3 -c '
import sys, time
share = float(sys.argv[1])
while True:
    begun = time.process_time()
    while time.process_time() - begun < share / 10:
        pass
    time.sleep((1 - share) / 10)' "$hog" &
		pid=$!
	fi
	begun=$(date +%s)
	serve="$dyno __oracle work --listen 127.0.0.1:{{port}} --iterations 150000 --slow"
	"$dyno" compare -q -o "$dir/run" --a "$serve 0" --b "$serve $slow" 'http://127.0.0.1:{{port}}/' >"$dir/out" 2>"$dir/err" || code=$?
	[ -z "$pid" ] || kill "$pid"
	jq -r --arg slow "$slow" --arg hog "$hog" --arg took $(($(date +%s) - begun)) --arg code "$code" '
		def percent: if . == null then "open" else (. - 1) * 1000 | round / 10 end;
		(.comparisons[] | select(.primary and .role == null)) as $c
		| [$slow, $hog, $c.metric, (if .plan.duet then "duet" else "rounds" end), .rounds, ($c.ratio.estimate | percent), ($c.ratio.low | percent), ($c.ratio.high | percent),
			$c.verdict, $took, $code] | @tsv' "$dir/run/run.json"
	rm -rf "${dir:?}/run"
}
export -f try

[ -z "${EARLIER:-}" ] || grep -P '^\d+%\t' "$EARLIER" >"$dir/tries" || true
touch "$dir/tries"
for of in ${TRIES:-8%:0.3:10 0%:0.3:20 6%:0:2}; do
	IFS=: read -r slow hog wanted <<<"$of"
	for _ in $(seq $((wanted - $(grep -cP "^$slow\t$hog\t" "$dir/tries" || true)))); do
		${ALONE:-} bash -euo pipefail -c "try $slow $hog" | tee -a "$dir/tries" >&2
	done
done
echo "nproc $(nproc), kernel $(uname -r)"
echo "planted	hog	metric	design	rounds	change	low	high	verdict	seconds	exit code"
cat "$dir/tries"
echo
jq -Rrs '[split("\n")[] | select(. != "") | split("\t")] | group_by([.[0], .[1]])[]
	| "\(.[0][0]) planted, hog of \(.[0][1]): a difference in \(map(select(.[8] == "worse" or .[8] == "better")) | length) of \(length), the true one in the interval in \(
		map(select((.[6] == "open" or (.[6] | tonumber) <= (.[0] | rtrimstr("%") | tonumber)) and (.[7] == "open" or (.[7] | tonumber) >= (.[0] | rtrimstr("%") | tonumber)))) | length); \(
		map(.[9] | tonumber) | min) to \(map(.[9] | tonumber) | max) s"' "$dir/tries"
