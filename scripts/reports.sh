#!/usr/bin/env bash
# Re-run published reports in full, by default all, and write for each docs/reports/NAME.md
# from the run folders (below $RUNS, by default runs/), and docs/reports/NAME-explain.md,
# which says why variants differ:
#
#   scripts/reports.sh [R1] [R3] [R4]
#
# Each takes about half an hour on two CPUs, which should have nothing else to do. A run
# that is complete already is not repeated; an interrupted one is gone on with.
set -euo pipefail
cd "$(dirname "$0")/.."
runs=${RUNS:-runs}
go build -o bin/dyno ./cmd/dyno

# run NAME: exit code 4 says that the machine was too busy; the report says so too.
run() {
	local folder=$runs/$1 code=0
	if [ ! -e "$folder/run.json" ]; then
		./bin/dyno run -o "$folder" "experiments/reports/$1.yaml" || code=$?
	elif ! grep -q '"complete": true' "$folder/run.json"; then
		./bin/dyno run --resume "$folder" || code=$?
	fi
	[ "$code" -eq 0 ] || [ "$code" -eq 4 ] || exit "$code"
}

# report NAME EXPERIMENT...: the experiments' reports in one document.
report() {
	local name=$1 folders=()
	shift
	for experiment in "$@"; do
		run "$experiment"
		folders+=("$runs/$experiment")
	done
	mkdir -p docs/reports
	./bin/dyno report --format markdown "${folders[@]}" >"docs/reports/$name.md"
	echo "docs/reports/$name.md"
}

# explain NAME EXPERIMENT
explain() {
	run "$2"
	./bin/dyno explain --format markdown --top 15 "$runs/$2" >"docs/reports/$1-explain.md"
	echo "docs/reports/$1-explain.md"
}

for name in "${@:-R1 R3 R4}"; do
	for one in $name; do
		case $one in
		R1)
			report R1 R1-concurrency-models R1-switch R1-stack R1-units R1-pinning R1-locks R1-io
			explain R1 R1-explain
			;;
		R3)
			report R3 R3-languages R3-multiplexed R3-ladder R3-serialization R3-middleware R3-listeners R3-connections
			explain R3 R3-ladder
			;;
		R4)
			report R4 R4-sse-ladder R4-publishers R4-slow R4-flush R4-nodelay R4-buffers R4-keepalive
			explain R4 R4-sse-ladder
			;;
		*)
			echo "reports: there is no report $one: want R1, R3 or R4" >&2
			exit 2
			;;
		esac
	done
done
