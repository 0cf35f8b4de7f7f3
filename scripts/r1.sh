#!/usr/bin/env bash
# The main job: build dyno and re-run report R1, the concurrency models of a TCP
# proxy, in its short form. Needs Go and two CPUs. Arguments go to dyno run.
#
# The run is done whatever comes of it: exit code 4 says that the machine was too
# busy to trust the figures, which are printed all the same.
set -euo pipefail
cd "$(dirname "$0")/.."
CGO_ENABLED=0 go build -trimpath -o bin/dyno ./cmd/dyno
exec ./bin/dyno run --short "$@" experiments/reports/R1-concurrency-models.yaml
