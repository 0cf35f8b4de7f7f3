#!/usr/bin/env bash
# Lay out the echo on grpc-js, with the packages of package-lock.json.
. "$(dirname "$0")/../recipe.sh"
sources=$rpc/node
begin node
need node nodejs
need npm npm
release=$(node --version)
major=$(sed 's/^v\([0-9]*\).*/\1/' <<<"$release")
[ "$major" -ge 20 ] || missing "Node.js $release is too old: 20 is needed"

program=$out/node/main.js
run=("$(command -v node)" "$program")
if current "$program" "$sources" "$rpc/echo.proto" "$rpc/recipe.sh" -- "$release"; then
	runs "${run[@]}"
	exit
fi
mkdir -p "$out/node"
cp "$sources"/*.js "$sources"/*.json "$sources"/.npmrc "$out/node/"
cp "$rpc/echo.proto" "$out/"
if ! npm ci --prefix "$out/node" --ignore-scripts --no-audit --no-fund >>"$out/build.log" 2>&1 9>&-; then
	if grep -q -e ENOTFOUND -e EAI_AGAIN -e ECONN -e ETIMEDOUT "$out/build.log"; then
		missing "the npm registry is not reached"
	fi
	tail -n 30 "$out/build.log" >&2
	echo "node: npm ci failed" >&2
	exit 1
fi
finish "${run[@]}"
