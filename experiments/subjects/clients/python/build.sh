#!/usr/bin/env bash
# Lay out the client on grpcio, with the packages of requirements.txt.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../../../../services/echo/rpc/recipe.sh"
begin client-python
need python3 python3
python3 -m pip --version >/dev/null 2>&1 || missing 'there is no pip (Debian: apt-get install python3-pip)'
run=(env "PYTHONPATH=$out/packages" "$(command -v python3)" "$here/main.py")
if current "$out/packages/grpc/__init__.py" "$here/requirements.txt" "$rpc/recipe.sh" -- "$(python3 --version)"; then
	runs "${run[@]}"
	exit
fi
rm -rf "$out/packages"
if ! python3 -m pip install --quiet --no-deps --only-binary=:all: --target "$out/packages" -r "$here/requirements.txt" >>"$out/build.log" 2>&1 9>&-; then
	missing "pip could not install grpcio: the log is $out/build.log"
fi
finish "${run[@]}"
