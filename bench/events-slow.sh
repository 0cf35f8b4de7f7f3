#!/usr/bin/env bash
# What a subscriber that reads nothing costs the 999 others: see events-slow.yaml.
#
#   bench/events-slow.sh | tee bench/events-slow.txt
set -euo pipefail
cd "$(dirname "$0")/.."
dyno=${DYNO:-$PWD/bin/dyno}
PATH=${dyno%/*}:$PATH # the experiment starts it by name
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
code=0
"$dyno" run -q -o "$dir/run" bench/events-slow.yaml 2>/dev/null || code=$?
# 4: the machine was too busy. The report says so, and has the figures all the same.
[ "$code" -eq 0 ] || [ "$code" -eq 4 ] || exit "$code"
jq -r '
	(.variants[] | select(.name == "true-0") | "result: all_read \(.figures["delivery.p99"].estimate * 1000) ms"),
	(.variants[] | select(.name == "true-1") | "result: one_stalled \(.figures["delivery.p99"].estimate * 1000) ms"),
	(.claims[] | select(.id == "R4.11/loop") | "result: change \(.measured * 100) % (\(.low * 100) … \(.high * 100) %)")' "$dir/run/run.json"
