#!/usr/bin/env bash
# What observing costs, by dyno's own comparison: see observers.yaml.
#
#   bench/observers.sh | tee bench/observers.txt
set -euo pipefail
cd "$(dirname "$0")/.."
dyno=${DYNO-$PWD/bin/dyno}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
code=0
"$dyno" run -q -o "$dir/run" bench/observers.yaml 2>/dev/null || code=$?
# 4: the machine was too busy. The report says so, and has the figures all the same.
[ "$code" -eq 0 ] || [ "$code" -eq 4 ] || exit "$code"
jq -r -L bench 'include "result";
	"result: default \(of("none"; "default"; "throughput") | change)",
	"result: window \(of("none"; "window"; "throughput") | change)"' "$dir/run/run.json"
