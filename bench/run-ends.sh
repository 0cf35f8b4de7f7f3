#!/usr/bin/env bash
# Count the finished trials that are lost when a run cannot end in order: its disk is full, at 20 sizes, or dyno is killed, at 20
# moments around the end. After each, dyno report and dyno run --resume must know every trial that was whole.
#
#   bench/run-ends.sh DYNO      needs root, for file systems of a few pages
set -euo pipefail
dyno=$(realpath "${1:?the program dyno}")
[ "${private:-}" ] || private=1 exec unshare -m "$0" "$dyno"
dir=$(mktemp -d)
cd "$dir"
"$dyno" serve echo --http 127.0.0.1:0 >echo.out 2>&1 &
echo=$!
trap 'kill $echo; umount "$dir/disk" 2>/dev/null || true; rm -rf "$dir"' EXIT
until address=$(grep -o '127\.0\.0\.1:[0-9]*' echo.out | head -1) && [ "$address" ]; do sleep 0.1; done
cat >plan.yaml <<Y
name: ends
target: {protocol: http, url: "http://$address/"}
load: {open: {rate: 100, max_connections: 4}, warmup: 100ms, window: 300ms}
design: {rounds: 3, remeasure: false}
Y

# whole RUN: the trials whose trial.json says that they are complete.
whole() { grep -l '"complete": true' "$1"/trials/*/trial.json 2>/dev/null | wc -l; }
# judged RUN: the trials that the report counts.
judged() { "$dyno" report --format json "$1" 2>>errors | python3 -c 'import json, sys; print(sum(v["trials"] for v in json.load(sys.stdin)["variants"]))' || echo 0; }
lost=0 trials=0
# account WHAT RUN
account() {
	local before after
	rm -rf copy
	cp -r "$2" copy # the report keeps the verdict
	before=$(whole "$2") after=$(judged "$2")
	local code=0 resumed
	"$dyno" run -q --resume copy >said 2>&1 || code=$?
	resumed=$(judged copy)
	trials=$((trials + 2 * before)) lost=$((lost + before - after + (resumed < before ? before - resumed : 0)))
	printf '%-22s %d whole, %d judged; resumed: exit code %d, %d judged\n' "$1" "$before" "$after" "$code" "$resumed"
}

mkdir disk
for size in $(seq 60 8 212); do
	mount -t tmpfs -o size=${size}k none disk
	"$dyno" run -q -o disk/run plan.yaml >/dev/null 2>&1 || true
	[ ! -e disk/run/run.json ] || {
		kept=$(whole disk/run) shown=$(judged disk/run) # in memory: the disk is still full
		lost=$((lost + kept - shown)) trials=$((trials + kept))
		mount -o remount,size=10m disk
		account "disk of ${size} KiB" disk/run
	}
	umount disk
done
for moment in $(seq 0 19); do
	rm -rf run
	"$dyno" run -q -o run plan.yaml >/dev/null 2>&1 &
	pid=$!
	until [ "$(whole run)" = 3 ] || ! kill -0 $pid 2>/dev/null; do :; done
	sleep "0.0$(printf %02d $((moment * 3)))"
	kill -9 $pid 2>/dev/null || true
	wait $pid 2>/dev/null || true
	account "killed after $((moment * 3)) ms" run
done
echo "finished trials: $trials, lost: $lost"
[ "$lost" = 0 ]
