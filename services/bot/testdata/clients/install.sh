#!/usr/bin/env bash
# Install the clients beside this script, in their pinned versions, unless they are
# there. Without npm or pip, or without their registries, it says so and succeeds: the
# tests that need them skip.
set -uo pipefail
cd "$(dirname "$0")"

# once FOLDER OF STEP...: repeat a step whose inputs have changed since.
once() {
	local folder=$1 of=$2 want
	shift 2
	want=$(sha256sum "$of")
	[ "$(cat "$folder/.installed" 2>/dev/null)" = "$want" ] && return
	if "$@" >/dev/null 2>&1; then
		echo "$want" >"$folder/.installed"
	else
		echo "setup: $1 could not install $of: tests with that client are skipped"
	fi
}
if command -v npm >/dev/null; then
	once node_modules package-lock.json npm ci --no-audit --no-fund --ignore-scripts
else
	echo "setup: no npm: tests with openai for Node.js are skipped"
fi
if python3 -m pip --version >/dev/null 2>&1; then
	once python requirements.txt python3 -m pip install -q --require-hashes --no-deps --upgrade --target python -r requirements.txt
else
	echo "setup: no pip: tests with openai for Python are skipped"
fi
