#!/usr/bin/env bash
# Run every generator (go:generate, the figures in documents, the tables of configurations, what the report's page
# shares with Go in TypeScript, and the build of the report's page) and fail if a file changed. What changed stays changed: look at it and commit it. Without Node.js
# the page is left alone, and that is said.
set -euo pipefail
cd "$(dirname "$0")/.."

snapshot() {
	find . -type d \( -name .git -o -name bin -o -name runs -o -name node_modules \) -prune -o -type f -print0 |
		sort -z | xargs -0 sha256sum
}
before=$(mktemp) after=$(mktemp)
trap 'rm -f "$before" "$after"' EXIT
snapshot >"$before"
go generate work
go run ./scripts/figures
go run ./scripts/configuration
go run ./scripts/types web/src
if command -v npm >/dev/null; then
	scripts/web.sh
else
	echo "fresh: report/assets was not built: there is no npm"
fi
snapshot >"$after"
if ! changed=$(diff "$before" "$after"); then
	echo "fresh: generating changed these files; look at them and commit them:"
	awk '/^[<>]/ { print "  " $3 }' <<<"$changed" | sort -u
	exit 1
fi
