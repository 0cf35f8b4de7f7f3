#!/usr/bin/env bash
# Look for known vulnerabilities that the code can reach. Skipped, saying so,
# only if the tool or its database cannot be fetched.
set -uo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- ./... ./experiments/...
tool=golang.org/x/vuln/cmd/govulncheck@v${GOVULNCHECK_VERSION:-1.8.0}

# The version says when the database was changed, if it can be reached: then all packages are read. Its exit code says
# nothing.
out=$(go run "$tool" -version 2>&1)
if ! grep -q '^DB updated: ' <<<"$out"; then
	if grep -q '^Scanner: ' <<<"$out"; then
		echo "vuln: skipped, cannot reach the vulnerability database"
		exit 0
	elif grep -qE ': (reading|Get) "?https?://|dial tcp|no such host' <<<"$out"; then
		echo "vuln: skipped, cannot fetch govulncheck: $(grep -m 1 -E 'https?://|dial tcp|no such host' <<<"$out" | sed 's/^.*: reading /reading /')"
		exit 0
	fi
fi
out=$(go run "$tool" "$@" 2>&1)
code=$?
[ $code -eq 0 ] || printf '%s\n' "$out"
exit $code
