#!/usr/bin/env bash
# Everything that must hold: set-up, build, format, lint with go vet, all tests (fuzz
# seeds and repository rules among them) with the race detector and in random
# order, fresh generated files, the report in a browser, known vulnerabilities.
# Runs every step even when one fails, and ends with the failed steps or "all
# passed".
set -uo pipefail
cd "$(dirname "$0")/.."
# What was compiled in another clone of this repository need not be compiled again.
export GOFLAGS="-trimpath ${GOFLAGS-}"

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

# begin NAME COMMAND...: begin what is a step later, and waits more than it works.
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
declare -A begun
begin() {
	"${@:2}" >"$logs/$1" 2>&1 &
	begun[$1]=$!
}

# end NAME: wait for its end, and show what it said.
end() {
	local code=0
	wait "${begun[$1]}" || code=$?
	cat "$logs/$1"
	return $code
}

begin modules go mod download
step setup scripts/setup.sh
end modules >/dev/null 2>&1 # a step that lacks a module says so itself
begin clients scripts/clients.sh
# With the same flags as lint and tests have, or all would be compiled once more.
step build go build -o bin/ ./cmd/...
step format scripts/fmt-check.sh
step lint scripts/lint.sh
step clients end clients
step fresh scripts/fresh.sh
# Browsers wait for much. Compilers, which do not mind waiting, run beside them.
begin compiling scripts/gotest.sh --compile
begin vulnerabilities scripts/vuln.sh
step browser scripts/browser.sh
step vulnerabilities end vulnerabilities
end compiling
begin images nice -n 19 scripts/image.sh
step tests scripts/gotest.sh
step images end images

if [ ${#failed[@]} -gt 0 ]; then
	echo "failed: ${failed[*]}"
	exit 1
fi
echo "all passed in $SECONDS s"
