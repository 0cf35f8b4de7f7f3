#!/usr/bin/env bash
# Build an echo on .NET 10: dotnet (Grpc.AspNetCore), which needs NuGet; dotnet-kestrel (gRPC's framing by hand on
# Kestrel's HTTP/2); or dotnet-aot, the latter compiled ahead of time, whose compiler comes from NuGet.
. "$(dirname "$0")/../recipe.sh"
. "$rpc/dotnet/sdk.sh"
sources=$rpc/dotnet

project=kestrel options=()
case ${1:-dotnet} in
dotnet) project=library ;;
dotnet-kestrel) ;;
dotnet-aot) options=(-r linux-x64 -p:PublishAot=true -p:UseAppHost=true -p:TreatWarningsAsErrors=false) ;;
*) missing "no program $1: there are dotnet, dotnet-kestrel and dotnet-aot" ;;
esac
begin "${1:-dotnet}"
find_sdk

program=$out/app/$(basename "$sources/$project"/*.csproj .csproj)
run=("$root/dotnet" "$program.dll")
if [ "$name" = dotnet-aot ]; then
	run=("$program")
fi
if current "${run[-1]}" "$sources" "$rpc/echo.proto" "$rpc/standard" "$rpc/recipe.sh" -- "$version" "$root"; then
	runs "${run[@]}"
	exit
fi
publish "$sources/$project" "${options[@]}"
finish "${run[@]}"
