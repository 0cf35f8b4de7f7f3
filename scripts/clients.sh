#!/usr/bin/env bash
# Install what others wrote and tests run against our servers and clients, in pinned versions, unless it is there:
# the packages for Node.js and Python of every folder testdata/clients, and gRPC's client in Java. Then build the
# control plane's clients in Python, Node.js and Java. Without npm, pip or mvn it says so and succeeds: the tests that
# need them skip. What these cannot install makes it fail.
set -uo pipefail
cd "$(dirname "$0")/.."

code=0
# once FOLDER "FILE..." STEP...: repeat a step whose inputs have changed since.
once() {
	local folder=$1 of=$2 want said
	shift 2
	# shellcheck disable=SC2086 # a file a word
	want=$(sha256sum $of)
	[ "$(cat "$folder/.installed" 2>/dev/null)" = "$want" ] && return
	if said=$("$@" 2>&1); then
		mkdir -p "$folder" # there may be nothing to install on this kind of machine
		echo "$want" >"$folder/.installed"
	else
		printf 'clients: %s could not install %s:\n%s\n' "$1" "$PWD/$of" "$said"
		code=1
	fi
}

for folder in {hub,load/engine,services/bot,services/control/xds}/testdata/clients services/control/clients/{python,node}; do
	cd "$folder"
	if [ ! -e package-lock.json ]; then
		: # none of Node.js
	elif command -v npm >/dev/null; then
		once node_modules package-lock.json npm ci --no-audit --no-fund --ignore-scripts
	else
		echo "clients: no npm: tests of $folder with clients for Node.js are skipped"
	fi
	if ! compgen -G 'requirements*.txt' >/dev/null; then
		: # none of Python
	elif python3 -m pip --version >/dev/null 2>&1; then
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

cd services/control/clients
messages=../rpc/control.proto
[ ! -e node/node_modules ] || cp "$messages" node/ # as its script "prepare" does
if [ -e python/python/.installed ]; then
	once python/python/dyno_control "$messages python/setup.py python/pyproject.toml $(echo python/src/dyno_control/*.py)" env PYTHONPATH="$PWD/python/python" \
		python3 -m pip install -q --no-deps --no-build-isolation --upgrade --target python/python ./python
fi
if command -v mvn >/dev/null && command -v javac >/dev/null; then
	once java/target "$messages java/pom.xml $(echo java/src/main/java/dyno/control/*.java)" mvn --quiet --batch-mode -f java/pom.xml package
	cd ../xds/testdata/clients
	once java/target "java/pom.xml java/src/main/java/Calls.java" mvn --quiet --batch-mode -f java/pom.xml package
else
	echo "clients: no mvn or javac: tests of the control plane with clients in Java are skipped"
fi
exit "$code"
