#!/usr/bin/env bash
# Build the client on .NET 10, as the builds of the folders next to this one ask: http (.NET's own client, with gRPC's
# framing by hand) or channel (Grpc.Net.Client, which needs NuGet).
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../../../../services/echo/rpc/recipe.sh"
. "$rpc/dotnet/sdk.sh"
begin "client-dotnet-$1"
find_sdk
run=("$root/dotnet" "$out/app/dyno-client-$1.dll")
if current "${run[-1]}" "$here" "$here-$1" "$rpc/dotnet/sdk.sh" "$rpc/recipe.sh" -- "$version" "$root"; then
	runs "${run[@]}"
	exit
fi
publish "$here-$1"
finish "${run[@]}"
