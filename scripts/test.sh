#!/usr/bin/env bash
# Everything that must hold: set-up, build, format, lint with go vet, all tests (fuzz
# seeds and repository rules among them) in random order, most with the race
# detector (scripts/gotest.sh), fresh generated files, the report in a browser, known vulnerabilities.
# Runs every step even when one fails, and ends with the failed steps or "all
# passed".
set -uo pipefail
cd "$(dirname "$0")/.."
# Most packages are compiled twice: without C, as for the images, and for the race detector.
# With -trimpath, all clones of this repository share what is compiled.
export GOFLAGS="-trimpath ${GOFLAGS-}" CGO_ENABLED=0
export DYNO_QUIET_WAIT=0 # what runs next to the tests is the other tests

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

# begin NAME COMMAND...: begin a step in the background.
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
declare -A begun
begin() {
	(
		start=$SECONDS code=0
		"${@:2}" || code=$?
		echo "   in the background: $((SECONDS - start)) s"
		exit $code
	) >"$logs/$1" 2>&1 &
	begun[$1]=$!
}

# end NAME: wait for its end, and show what it said.
end() {
	local code=0
	wait "${begun[$1]}" || code=$?
	cat "$logs/$1"
	return $code
}

# modules: download what both modules are built of. In the workspace, go mod download wants all that they could need.
modules() { GOWORK=off go mod download && GOWORK=off go -C experiments mod download; }
begin modules modules
step setup scripts/setup.sh
end modules >/dev/null 2>&1 # a step that lacks a module says so itself
begin clients scripts/clients.sh
step build go build -o bin/ ./cmd/...
step format scripts/fmt-check.sh
step clients end clients
step fresh scripts/fresh.sh # after the clients: it compares all files
# Browsers wait for much. Compilers and the linter do not mind waiting for them.
begin browser scripts/browser.sh
begin lint nice scripts/lint.sh
step compile nice scripts/gotest.sh --compile
step lint end lint
# Of the tests many are about time. What compiles next to them has what they leave of the CPUs.
begin vulnerabilities nice -n 19 scripts/vuln.sh
begin images nice -n 19 scripts/image.sh
begin systems nice -n 19 go run ./scripts/systems ./cmd/dyno darwin/arm64 windows/amd64
step tests scripts/gotest.sh
for name in vulnerabilities images systems browser; do
	step "$name" end "$name"
done

if [ ${#failed[@]} -gt 0 ]; then
	echo "failed: ${failed[*]}"
	exit 1
fi
echo "all passed in $SECONDS s"
