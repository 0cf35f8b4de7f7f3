#!/usr/bin/env bash
# Look for known vulnerabilities that the code can reach. Skipped, saying so,
# only if the tool or its database cannot be fetched.
set -uo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- ./... ./experiments/...
tool=golang.org/x/vuln/cmd/govulncheck@v${GOVULNCHECK_VERSION:-1.8.0}

# Does it build? Its own exit code says nothing here: -version ends with the database's.
if ! out=$(go run "$tool" -version 2>&1) && grep -qE ': (reading|Get) "?https?://|dial tcp|no such host' <<<"$out" && ! grep -q '^Scanner: ' <<<"$out"; then
	echo "vuln: skipped, cannot fetch govulncheck: $(grep -m 1 -E 'https?://|dial tcp|no such host' <<<"$out" | sed 's/^.*: reading /reading /')"
	exit 0
fi
out=$(go run "$tool" "$@" 2>&1)
code=$?
if [ $code -ne 0 ] && grep -qE 'fetching vulnerabilities|vuln\.go\.dev' <<<"$out" && ! grep -q '^Vulnerability #' <<<"$out"; then
	echo "vuln: skipped, cannot reach the vulnerability database: $(grep -m 1 -E 'fetching|vuln\.go\.dev' <<<"$out")"
	exit 0
fi
[ $code -eq 0 ] || printf '%s\n' "$out"
exit $code
