#!/usr/bin/env bash
# Everything that must hold: set-up, vet, build, format, lint, all tests (fuzz
# seeds and repository rules among them) with the race detector and in random
# order, fresh generated files, the report in a browser, known vulnerabilities.
# Runs every step even when one fails, and ends with the failed steps or "all
# passed".
set -uo pipefail
cd "$(dirname "$0")/.."

failed=()
step() {
	local name=$1 start=$SECONDS
	shift
	echo "== $name"
	if "$@"; then
		echo "   $((SECONDS - start)) s"
	else
		failed+=("$name")
		echo "   FAILED after $((SECONDS - start)) s"
	fi
}

step setup scripts/setup.sh
step clients services/events/testdata/clients/install.sh
step vet go vet ./...
step build go build -trimpath -o bin/ ./cmd/...
step format scripts/fmt-check.sh
step lint scripts/lint.sh
step fresh scripts/fresh.sh
step browser scripts/browser.sh
step vulnerabilities scripts/vuln.sh
step tests scripts/gotest.sh

if [ ${#failed[@]} -gt 0 ]; then
	echo "failed: ${failed[*]}"
	exit 1
fi
echo "all passed in $SECONDS s"
