#!/usr/bin/env bash
# Build the loops in Go, and print the command that runs them.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../../../../services/echo/rpc/recipe.sh"
begin runtimes-go
need go golang
(cd "$here" && go build -o "$out/runtimes" .)
runs "$out/runtimes"
