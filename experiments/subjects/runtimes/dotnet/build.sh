#!/usr/bin/env bash
# Build the loops on .NET 10, and print the command that runs them.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../../../../services/echo/rpc/recipe.sh"
. "$rpc/dotnet/sdk.sh"
begin dotnet-runtimes
find_sdk
run=("$root/dotnet" "$out/app/dyno-runtimes.dll")
if current "${run[-1]}" "$here" "$rpc/dotnet/sdk.sh" "$rpc/recipe.sh" -- "$version" "$root"; then
	runs "${run[@]}"
	exit
fi
publish "$here"
finish "${run[@]}"
