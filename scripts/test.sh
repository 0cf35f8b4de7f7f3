#!/usr/bin/env bash
# Everything that must hold: set-up, build, format, lint with go vet, all tests (fuzz
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

# What waits for the network runs beside what needs the CPU.
go mod download 2>/dev/null & # a step that lacks a module says so itself
modules=$!
step setup scripts/setup.sh
wait "$modules"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
scripts/clients.sh >"$log" 2>&1 &
installing=$!
clients() {
	local code=0
	wait "$installing" || code=$?
	cat "$log"
	return $code
}
# With the same flags as lint and tests have, or all would be compiled once more.
step build go build -o bin/ ./cmd/...
step format scripts/fmt-check.sh
step clients clients
step lint scripts/lint.sh
step fresh scripts/fresh.sh
# Browsers wait for much. Compilers, which do not mind waiting, run beside them.
scripts/gotest.sh --compile &
compiling=$!
step browser scripts/browser.sh
step vulnerabilities scripts/vuln.sh
wait "$compiling"
step tests scripts/gotest.sh

if [ ${#failed[@]} -gt 0 ]; then
	echo "failed: ${failed[*]}"
	exit 1
fi
echo "all passed in $SECONDS s"
