#!/usr/bin/env bash
# Take the pictures that documents show: of a quick load of nginx on a terminal, and of reports: of R1, in
# its short form unless a run folder is given, and of the tutorial's comparison. Needs what scripts/browser.sh
# needs, and a Chinese font (fonts-noto-cjk).
#
#   scripts/screenshots.sh [RUN]
set -euo pipefail
cd "$(dirname "$0")/.."
run=${1:-}
dir=$(mktemp -d)
trap 'kill "${nginx-}" "${echo-}" 2>/dev/null || true; rm -rf "$dir"' EXIT
mkdir -p docs/screenshots

. bench/nginx.sh
nginx_static "$dir" 8080
taskset -c 0 nginx -p "$dir" -e stderr -c "$dir/nginx.conf" &
nginx=$!
curl -s --retry 20 --retry-connrefused --retry-delay 1 -o /dev/null http://127.0.0.1:8080/
go build -o "$dir/dyno" ./cmd/dyno
load="-c 64 --cpus 1 http://127.0.0.1:8080/"
{
	echo "\$ dyno $load"
	script -qec "stty cols 100; '$dir/dyno' -q $load" /dev/null
} | node web/browser/terminal.mjs docs/screenshots/quick-load.png

if [ -z "$run" ]; then
	run=$dir/run
	scripts/r1.sh -q -o "$run" >/dev/null || [ $? -eq 4 ] # the machine was too busy; the picture says so
fi
SHOTS=$dir/shots RUN=$run scripts/browser.sh
cp "$dir/shots/light-en.png" docs/screenshots/report-en.png

# The page's comparison.
"$dir/dyno" serve echo --tcp 127.0.0.1:18300 &
echo=$!
relay="dyno serve relay --listen 127.0.0.1:{{port}} --to 127.0.0.1:18300 --network delay="
PATH="$dir:$PATH" dyno compare -q -o "$dir/faster" --rounds 8 -z 200ms --warmup 50ms -c 8 --payload 1KiB \
	--a "${relay}5ms" --b "${relay}3ms" 'tcp://127.0.0.1:{{port}}' >/dev/null || [ $? -eq 4 ]
SHOTS=$dir/shots RUN=$dir/faster scripts/browser.sh
cp "$dir/shots/light-en.png" docs/screenshots/tutorial.png
cp "$dir/shots/light-zh.png" docs/screenshots/tutorial.zh.png
