#!/usr/bin/env bash
# Build container images without docker: static programs, each with what it needs in one
# archive. Print the sizes, and fail if one is larger than 45 MB, or dyno's larger than 60 MB.
#
#   scripts/image.sh [FOLDER]      writes FOLDER/dyno.tar, FOLDER/dyno-bot.tar and FOLDER/dyno-control.tar (bin)
#
# GOARCH=arm64 builds for ARM. TAG=dev names them. "podman load -i", "docker load -i" and
# "ctr image import" take them.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-bin}
tag=${TAG:-dev}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir -p "$out"
CGO_ENABLED=0 GOOS=linux go build -trimpath -buildvcs=false -ldflags='-s -w' -o "$dir/" ./cmd/...
# This machine's own, whatever GOARCH is.
GOARCH='' go build -o "$dir/image" ./scripts/image
"$dir/image" -program "$dir/dyno" -arch "$(go env GOARCH)" -tag "dyno:$tag" -most 60 -port 7300 -o "$out/dyno.tar"
"$dir/image" -program "$dir/dyno-bot" -arch "$(go env GOARCH)" -tag "dyno-bot:$tag" -port 8000 -port 8001 -o "$out/dyno-bot.tar"
"$dir/image" -program "$dir/dyno-control" -arch "$(go env GOARCH)" -tag "dyno-control:$tag" -port 7100 -o "$out/dyno-control.tar"
