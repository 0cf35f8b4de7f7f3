#!/usr/bin/env bash
# Build the client on grpc-go, and print the command that runs it.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../../../../services/echo/rpc/recipe.sh"
begin client-go
need go golang
(cd "$here" && go build -o "$out/client" .)
runs "$out/client"
