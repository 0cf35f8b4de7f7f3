#!/usr/bin/env bash
# One trial of R2-goal.yaml from a cold start, cut into phases by experiments/subjects/phases:
#
#   experiments/bot/phases.sh LENGTH FLAG…
#
# go build -o bin/ has built bin/phases.
set -euo pipefail
length=$1
shift
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
code=0
dyno run -q --set rounds=1 --set warmup=0s --set "window=$length" --set quiet_wait=0s --set remeasure=false -o "$dir/run" \
	"$(dirname "$0")/../reports/R2-goal.yaml" >"$dir/log" 2>&1 || code=$?
if ! grep -qs '"complete": true' "$dir/run/run.json"; then
	cat "$dir/log" >&2
	exit "$code"
fi
"$(dirname "$0")/../../bin/phases" cut --folder "$dir/run" "$@"
