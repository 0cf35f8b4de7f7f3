#!/usr/bin/env bash
# Lay out the client on grpc-js, whose package is the echo's own.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../../../../services/echo/rpc/recipe.sh"
"$rpc/node/build.sh" >/dev/null || exit
runs env "NODE_PATH=$cache/node/node/node_modules" "$(command -v node)" "$here/main.js"
