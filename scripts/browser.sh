#!/usr/bin/env bash
# Drive the HTML report and the pages of dyno ui, the bot gateway and the control plane in Debian's
# Chromium: languages, zoom, search, keyboard, live runs and rollouts, changes,
# accessibility, and that they ask nobody for anything. Skips, with the reason, where
# there is no Chromium, no Node.js or nothing installed by scripts/web.sh.
# With SHOTS=DIR and RUN=FOLDER it takes pictures of that run's report instead.
set -euo pipefail
cd "$(dirname "$0")/.."
chromium=${CHROMIUM:-/usr/bin/chromium}
skip() {
	echo "browser: skipped: $1"
	exit 0
}
[ -x "$chromium" ] || skip "there is no $chromium (apt-get install chromium)"
command -v node >/dev/null || skip "there is no node"
[ -d web/node_modules/playwright-core ] || skip "web/node_modules is missing (scripts/web.sh)"

pages=$(mktemp -d)
trap 'rm -rf "$pages"' EXIT
export CHROMIUM=$chromium PAGES=$pages
if [ -n "${SHOTS:-}" ]; then
	mkdir -p "$SHOTS"
	go run ./cmd/dyno report --format html -o "$pages/run.html" "$RUN"
	SHOTS=$(realpath "$SHOTS") node web/browser/shots.mjs
	exit
fi
go test ./report/html -vet=off -count=1 -run '^(TestPages|TestHistoryPage)$' -pages "$pages" >/dev/null
go build -o "$pages/" ./cmd/...
export DYNO=$pages/dyno DYNO_BOT=$pages/dyno-bot CONTROL=$pages/dyno-control
# Three at once: there are two CPUs, and the tests of ui wait for runs most of the time. What they
# say comes in order.
run() {
	local page code=0
	for page; do
		node --test --test-reporter=spec "web/browser/$page.test.mjs" || code=1
	done
	return $code
}
run ui >"$pages/ui-said" 2>&1 &
ui=$!
run console bot >"$pages/services-said" 2>&1 &
services=$!
code=0
run report || code=1
wait $ui || code=1
wait $services || code=1
cat "$pages/ui-said" "$pages/services-said"
exit $code
