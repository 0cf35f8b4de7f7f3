#!/usr/bin/env bash
# How far dyno's P99 is from that of the packets' stamps, at most, over the servers of dyno-calibrate that say how long they took:
#
#   experiments/bot/p99.sh WINDOW
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"$(dirname "$0")/../../bin/dyno-calibrate" -q --only delays --window "$1" --raw "$dir" >"$dir/log" 2>&1 || { cat "$dir/log" >&2; exit 1; }
python3 - "$dir/oracles.csv" <<'EOF'
import csv, json, sys
off = [abs(float(row["measured"]) - float(row["expected"])) for row in csv.DictReader(open(sys.argv[1]))
       if row["quantity"] == "service p99 by the kernel's clock"]
print(json.dumps({"p99_error_seconds": max(off), "servers": len(off)}))
EOF
