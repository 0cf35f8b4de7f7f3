#!/usr/bin/env bash
# Re-run report R1 in full and write docs/reports/R1.md from the run folders (below
# $RUNS, by default runs/), and docs/reports/R1-explain.md, which says why the relay's
# models differ. Takes about half an hour on two CPUs, which should have
# nothing else to do. A run that is complete already is not repeated; an interrupted
# one is gone on with.
set -euo pipefail
cd "$(dirname "$0")/.."
runs=${RUNS:-runs}
go build -trimpath -o bin/dyno ./cmd/dyno

# run NAME FILE: exit code 4 says that the machine was too busy; the report says so too.
run() {
	local folder=$runs/$1 code=0
	if [ ! -e "$folder/run.json" ]; then
		./bin/dyno run -o "$folder" "$2" || code=$?
	elif ! grep -q '"complete": true' "$folder/run.json"; then
		./bin/dyno run --resume "$folder" || code=$?
	fi
	[ "$code" -eq 0 ] || [ "$code" -eq 4 ] || exit "$code"
}

names=(R1-concurrency-models R1-switch R1-stack R1-units R1-pinning R1-locks R1-io)
folders=()
for name in "${names[@]}"; do
	run "$name" "experiments/reports/$name.yaml"
	folders+=("$runs/$name")
done
mkdir -p docs/reports
./bin/dyno report --format markdown "${folders[@]}" >docs/reports/R1.md
run R1-explain experiments/reports/R1-explain.yaml
./bin/dyno explain --format markdown --top 15 "$runs/R1-explain" >docs/reports/R1-explain.md
echo "docs/reports/R1.md docs/reports/R1-explain.md"
