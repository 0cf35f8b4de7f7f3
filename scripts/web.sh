#!/usr/bin/env bash
# Check, test and build the report's page and those of dyno ui, the bot gateway and the control
# plane from web/ into their folders "assets", which are committed: who
# builds dyno needs no Node.js.
# Needs node and npm, and npm's registry once for what web/package-lock.json names.
set -euo pipefail
cd "$(dirname "$0")/../web"
command -v npm >/dev/null || { echo "web: there is no npm"; exit 1; }
node -e 'process.exit(process.versions.node.split(".")[0] >= 20 ? 0 : 1)' || { echo "web: want Node.js 20 or later, this is $(node --version)"; exit 1; }
# What was installed by this lock file need not be installed again.
stamp=node_modules/.installed
sum=$(sha256sum package.json package-lock.json | sha256sum)
if [ "$(cat $stamp 2>/dev/null)" != "$sum" ]; then
	npm ci --no-fund --no-audit
	echo "$sum" >$stamp
fi
npm run --silent check
npm run --silent test
npm run --silent build
for assets in report/assets ui/assets services/bot/page/assets services/control/console/assets; do
	page=$(basename "$(dirname $assets)")
	size=$(gzip -9c ../$assets/$page.js ../$assets/$page.css | wc -c)
	echo "web: $page has $size bytes compressed"
	[ "$size" -le $((300 * 1024)) ] || { echo "web: want at most 300 KiB"; exit 1; }
done
