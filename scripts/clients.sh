#!/usr/bin/env bash
# Install what others wrote and tests run against our servers, in pinned versions, unless it is there:
# the packages for Node.js and Python of every folder testdata/clients. Without npm or pip it says so
# and succeeds: the tests that need them skip. What these cannot install makes it fail.
set -uo pipefail
cd "$(dirname "$0")/.."

code=0
# once FOLDER OF STEP...: repeat a step whose inputs have changed since.
once() {
	local folder=$1 of=$2 want said
	shift 2
	want=$(sha256sum "$of")
	[ "$(cat "$folder/.installed" 2>/dev/null)" = "$want" ] && return
	if said=$("$@" 2>&1); then
		mkdir -p "$folder" # there may be nothing to install on this kind of machine
		echo "$want" >"$folder/.installed"
	else
		printf 'clients: %s could not install %s:\n%s\n' "$1" "$PWD/$of" "$said"
		code=1
	fi
}

for folder in hub services/bot services/control/xds; do
	cd "$folder/testdata/clients"
	if [ ! -e package-lock.json ]; then
		: # none of Node.js
	elif command -v npm >/dev/null; then
		once node_modules package-lock.json npm ci --no-audit --no-fund --ignore-scripts
	else
		echo "clients: no npm: tests of $folder with clients for Node.js are skipped"
	fi
	if python3 -m pip --version >/dev/null 2>&1; then
		for list in requirements*.txt; do # requirements-NAME.txt is installed into python-NAME
			target=${list/requirements/python}
			target=${target%.txt}
			once "$target" "$list" python3 -m pip install -q --require-hashes --no-deps --upgrade --only-binary=:all: --target "$target" -r "$list"
		done
	else
		echo "clients: no pip: tests of $folder with clients for Python are skipped"
	fi
	cd - >/dev/null
done
exit "$code"
