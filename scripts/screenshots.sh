#!/usr/bin/env bash
# Take the pictures that documents show: of a quick load of nginx on a terminal, and of a report: of R1, in
# its short form unless a run folder is given. Needs what scripts/browser.sh needs.
#
#   scripts/screenshots.sh [RUN]
set -euo pipefail
cd "$(dirname "$0")/.."
run=${1:-}
dir=$(mktemp -d)
trap 'kill "${nginx-}" 2>/dev/null || true; rm -rf "$dir"' EXIT
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
