#!/usr/bin/env bash
# Report R1 in its short form, as scripts/r1.sh runs it: on an idle machine, next to a program that takes 30 % of one
# CPU, and next to one that takes a whole CPU. How many of its claims are settled, how many of these outcomes are
# the opposite of those on the idle machine, exit codes, and how long it took.
#
#   bench/r1-noise.sh | tee bench/r1-noise.txt
#
# The machine must be idle otherwise. The first idle run has the outcomes that the others are held against. A claim
# counts as wrong if it is refuted where it held, or the other way round.
#
# Settings, by environment:
#   RUNS=10 HOGS="0 30 100" (percent of one CPU) DYNO=…/bin/dyno KEEP=FOLDER (of the runs; a run in it is not made again)
set -euo pipefail
cd "$(dirname "$0")/.."

runs=${RUNS:-10} dyno=${DYNO-$PWD/bin/dyno}
read -r -a hogs <<<"${HOGS:-0 30 100}"
. bench/required.sh
required jq python3 "$dyno"

dir=${KEEP:-$(mktemp -d)} hog=
mkdir -p "$dir"
trap '[ -z "$hog" ] || kill "$hog" 2>/dev/null || true; [ -n "${KEEP:-}" ] || rm -rf "$dir"' EXIT

# burn PERCENT: takes that much of one CPU, in turns of a tenth of a second; the kernel chooses the CPU.
burn() {
	exec python3 -c '
import sys, time
share = int(sys.argv[1]) / 100
while True:
    begun = time.process_time()
    while time.process_time() - begun < 0.1 * share:
        pass
    time.sleep(0.1 * (1 - share))' "$1"
}

outcomes() { jq -c '[.claims[] | {key: .id, value: .outcome}] | from_entries' "$1/run.json"; }

echo "report R1, short form, next to a program that takes 0 to 100 % of one CPU"
echo "$(nproc) × $(sed -n 's/^model name\s*: //p;T;q' /proc/cpuinfo), Linux $(uname -r | cut -d- -f1), $(date +%F)"
truth=
for percent in "${hogs[@]}"; do
	for ((n = 1; n <= runs; n++)); do
		run=$dir/$percent-$n
		if [ ! -e "$run.took" ]; then
			rm -rf "$run"
			[ "$percent" = 0 ] || { burn "$percent" & hog=$!; }
			code=0 begun=$(date +%s)
			"$dyno" run -q --short -o "$run" experiments/reports/R1-concurrency-models.yaml >"$run.txt" 2>&1 || code=$?
			echo "$code $(($(date +%s) - begun))" >"$run.took"
			[ -z "$hog" ] || { kill "$hog"; wait "$hog" 2>/dev/null || true; hog=; }
		fi
		read -r code seconds <"$run.took"
		[ -n "$truth" ] || truth=$(outcomes "$run")
		jq -r --argjson truth "$truth" --arg percent "$percent" --arg code "$code" --arg seconds "$seconds" '
			def side: {holds: 1, agrees: 1, larger: 1, smaller: 1, refuted: -1}[.] // 0;
			[.claims[] | select(.outcome != "not settled")] as $settled |
			[$settled[] | select((.outcome | side) * ($truth[.id] | side) < 0)] as $wrong |
			"hog \($percent) %: \($settled | length) of \(.claims | length) claims settled, \($wrong | length) wrong, exit \($code), \($seconds) s" +
			(if .no_room then ", it shows nothing" else "" end)' "$run/run.json"
	done
done
