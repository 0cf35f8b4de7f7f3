#!/usr/bin/env bash
exec "$(dirname "$0")/../dotnet/build.sh" channel
