#!/usr/bin/env bash
# Run a benchmark in turns with the programs in FOLDER and with those in bin/, and compare their results:
# the median of each, and the median of the ratios of neighbours (after over before).
#
#   bench/before-after.sh FOLDER bench/SCRIPT.sh
#
# Settings, by environment: ROUNDS=5, and those of the benchmark.
set -euo pipefail
[ $# -eq 2 ] || { echo "usage: bench/before-after.sh FOLDER bench/SCRIPT.sh" >&2; exit 2; }
before=$(realpath "$1") script=$(realpath "$2") rounds=${ROUNDS:-5}
cd "$(dirname "$0")/.."
results=$(mktemp)
trap 'rm -f "$results"' EXIT

# turn WHEN FOLDER ROUND: the results of one run, as "WHEN ROUND NAME VALUE".
turn() {
	# The scripts have rounds of their own, which these take the place of.
	ROUNDS=1 DYNO=$2/dyno CONTROL=$2/dyno-control "$script" |
		awk -v when="$1" -v round="$3" '/^result: /{print when, round, $2, $3}' >>"$results"
}
for ((i = 1; i <= rounds; i++)); do
	# Who comes second finds the machine as the other has left it.
	if ((i % 2)); then order=(before after); else order=(after before); fi
	for when in "${order[@]}"; do
		if [ "$when" = before ]; then turn before "$before" "$i"; else turn after "$PWD/bin" "$i"; fi
	done
done

echo "$(basename "$script"), before and after, $rounds rounds in turns"
awk '
	function median(text, n, v, i, j, x) {
		n = split(text, v, " ")
		for (i = 2; i <= n; i++) for (j = i; j > 1 && v[j] + 0 < v[j - 1] + 0; j--) { x = v[j]; v[j] = v[j - 1]; v[j - 1] = x }
		lowest = v[1]; highest = v[n]
		return n % 2 ? v[(n + 1) / 2] : (v[n / 2] + v[n / 2 + 1]) / 2
	}
	{ if (!($3 in seen)) { seen[$3] = 1; names[++count] = $3 } all[$1, $3] = all[$1, $3] " " $4; value[$1, $2, $3] = $4; if ($2 > rounds) rounds = $2 }
	END {
		printf "%-32s %12s %12s %8s\n", "result", "before", "after", "ratio"
		for (k = 1; k <= count; k++) {
			name = names[k]; ratios = ""
			for (i = 1; i <= rounds; i++) if (value["before", i, name] > 0) ratios = ratios " " value["after", i, name] / value["before", i, name]
			b = median(all["before", name]); a = median(all["after", name]); r = median(ratios)
			printf "%-32s %12.6g %12.6g %8.3f (%.3f … %.3f)\n", name, b, a, r, lowest, highest
		}
	}' "$results"
