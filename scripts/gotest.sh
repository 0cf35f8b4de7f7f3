#!/usr/bin/env bash
# Run all Go tests in random order, with the race detector where there is a C
# compiler to link it, except packages that have one goroutine (scripts/sequential.sh) and, without
# --all, those that run whole programs. Three packages at a time: most wait more than they work.
# Packages with one goroutine are not about time: they run next to the others, at a low priority.
# Prints a line per package, failures in full, skips with their reason,
# and last "N passed, N failed, N skipped". A test with subtests counts as one more. Tests that
# -short leaves out begin their reason with "-short: ": they are many, so they are counted only.
# Arguments go to go test, with the race detector.
# go vet is part of scripts/lint.sh: here it would be done again, with the race detector's flags.
#
#   scripts/gotest.sh               what must hold before a change lands: go test -short
#   scripts/gotest.sh --all         all tests, as scripts/nightly.sh runs them: whole programs have the race detector, too
#   scripts/gotest.sh ARGUMENT...   go test with these arguments
#   scripts/gotest.sh --compile [PACKAGE...]   only compile all but the packages with one goroutine
set -uo pipefail
cd "$(dirname "$0")/.."
export GOFLAGS="-trimpath ${GOFLAGS-}" CGO_ENABLED=0 # see scripts/test.sh

race=(-race) cgo=1 # which the race detector needs
if ! command -v "$(go env CC)" >/dev/null; then
	race=() cgo=0
	echo "gotest: no C compiler, so without the race detector"
fi
# The race detector's run time has each program sleep a second before it ends, so that what
# still runs may race. Most packages check that nothing does (internal/leak).
export GORACE="atexit_sleep_ms=50 ${GORACE-}"
mode=${1-} short=(-short)
case $mode in
"" | --compile) ;;
*) short=() ;;
esac
# There is a program to link for each package. A linker that collects garbage seldom takes a quarter less of the CPU.
tests() {
	go test -json -vet=off -shuffle=on -p 3 -timeout 20m -toolexec 'env GOGC=400' ${short[@]+"${short[@]}"} "$@"
}
# racing COMMAND...: run it on the packages, with the race detector.
racing() {
	CGO_ENABLED=$cgo "$@" ${race[@]+"${race[@]}"} "${packages[@]}"
}
# whole matches the packages whose tests run programs of this repository as processes, and programs that
# exist only to be measured. With the race detector such a process takes 80 ms of CPU time to start instead of
# 20, and the packages that it is made of have their own tests with it.
whole='/(cli|cli/fleet|deploy/ci|internal/manual|services/(bot|control)/program|experiments/subjects/.*)$'
sequential() {
	local packages code=0
	packages=$(scripts/sequential.sh) || exit
	# shellcheck disable=SC2086 # a package a word
	tests $packages || code=$?
	# The poller of other systems.
	tests -tags portable ./load/engine/{poll,socket,subscribe} || code=$?
	[ ${#short[@]} -eq 0 ] || return $code
	tests -tags portable ./load/engine || code=$?
	# The race detector has memory of its own, and makes what is exhaustive slow: these skip, or
	# do less, where it is at work (internal/race).
	tests -run 'Alloca|^TestEvery(Cut|Truncation)$' ./load/engine/... ./load/wire/tlslayer || code=$?
	# Next to the others, its tests have the stores in memory where they choose none.
	tests ./services/bot -args -servers || code=$?
	# The other library of the standard, which is compiled with this setting only.
	GOEXPERIMENT=jsonv2 tests ./experiments/subjects/bot/codec || code=$?
	return $code
}
# summary: print what gotestsum prints, with a line for each skipped test, and count.
summary() {
	local line test why leftOut=0 packages=0 ran=0 skipped=0 failed=0
	while IFS= read -r line; do
		if [[ $line =~ ^===\ SKIP:\ (.*)\ \( ]]; then
			test=${BASH_REMATCH[1]} why=
			while read -r line && [ -n "$line" ]; do
				why+=" $line"
			done
			if [[ $why == *": -short: "* ]]; then
				leftOut=$((leftOut + 1))
			else
				echo "skip  $test:${why:- no reason given}"
			fi
			continue
		elif [[ $line == "=== FAIL: "*"  ("* ]]; then
			packages=$((packages + 1)) # it has no name of a test, and is not among those that ran
		elif [[ $line =~ ^DONE\ ([0-9]+)\ tests(, ([0-9]+) skipped)?(, ([0-9]+) failures?)? ]]; then
			ran=${BASH_REMATCH[1]} skipped=${BASH_REMATCH[3]:-0} failed=${BASH_REMATCH[5]:-0}
		fi
		echo "$line"
	done
	[ $leftOut -eq 0 ] || echo "$leftOut of the skipped are left out by -short"
	echo "$((ran - skipped - failed + packages)) passed, $failed failed, $skipped skipped"
	[ "$ran" -gt 0 ] # else nothing was tested
}

case $mode in
--all | --compile) shift ;;
esac
packages=("$@")
[ "$mode" != --all ] || whole='^$'
[ $# -gt 0 ] || mapfile -t packages < <(scripts/sequential.sh --not | grep -vE "$whole")
[ ${#packages[@]} -gt 0 ] || exit 1
mapfile -t programs < <([ $# -gt 0 ] || scripts/sequential.sh --not | grep -E "$whole")
if [ "$mode" = --compile ]; then
	racing go list -export -test -f '' >/dev/null 2>&1
	[ ${#programs[@]} -eq 0 ] || go list -export -test -f "" "${programs[@]}" >/dev/null 2>&1
	exit 0 # whatever does not compile is reported when it is tested
fi
case $mode in
"" | --all)
	aside=$(mktemp -d)
	trap 'rm -rf "$aside"' EXIT
	(
		renice -n 19 "$BASHPID" >/dev/null
		sequential
	) >"$aside/sequential" &
	others=($!) code=0
	[ ${#programs[@]} -eq 0 ] || tests -p 2 "${programs[@]}" >"$aside/programs" &
	others+=($!)
	racing tests || code=$?
	for other in "${others[@]}"; do
		wait "$other" || code=$?
	done
	cat "$aside"/*
	exit "$code"
	;;
*) racing tests ;;
esac | go run gotest.tools/gotestsum@v1.13.0 --no-color --format-icons text --format-hide-empty-pkg \
	--ignore-non-json-output-lines --raw-command -- cat | summary
