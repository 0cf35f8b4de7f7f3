#!/usr/bin/env bash
# Take the pictures of a report that README.md and README.zh-CN.md show: of report R1, in
# its short form unless a run folder is given. Needs what scripts/browser.sh needs, and
# for the Chinese one a font (fonts-noto-cjk).
#
#   scripts/screenshots.sh [RUN]
set -euo pipefail
cd "$(dirname "$0")/.."
run=${1:-}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
if [ -z "$run" ]; then
	run=$dir/run
	scripts/r1.sh -q -o "$run" >/dev/null || [ $? -eq 4 ] # the machine was too busy; the picture says so
fi
SHOTS=$dir/shots RUN=$run scripts/browser.sh
mkdir -p docs/screenshots
cp "$dir/shots/light-en.png" docs/screenshots/report-en.png
cp "$dir/shots/dark-zh.png" docs/screenshots/report-zh.png
