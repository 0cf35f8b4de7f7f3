#!/usr/bin/env bash
# Run every fuzz target for a time each: scripts/fuzz.sh [TIME] [PACKAGES]
set -euo pipefail
cd "$(dirname "$0")/.."
time=${1:-60s}
shift || true

packages=("$@")
[ ${#packages[@]} -gt 0 ] || packages=(work)
failed=0 count=0
for package in $(go list "${packages[@]}"); do
	if ! list=$(go test -list '^Fuzz' "$package" 2>&1); then
		printf '%s\n' "$list"
		failed=$((failed + 1))
		continue
	fi
	for target in $(grep '^Fuzz' <<<"$list" || true); do
		count=$((count + 1))
		echo "== $package $target for $time"
		if ! out=$(go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" -fuzzminimizetime 20x "$package" 2>&1); then
			printf '%s\n' "$out"
			failed=$((failed + 1))
		else
			grep '^fuzz: elapsed' <<<"$out" | tail -n 1
		fi
	done
done
echo "$count fuzz targets run, $failed targets or packages failed"
[ "$count" -gt 0 ] && [ "$failed" -eq 0 ]
