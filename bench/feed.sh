#!/usr/bin/env bash
# What rows of data and scenarios cost, without a network.
#
# A table of a million rows: time to open it and to take each row once in random order; what
# the process holds of it (held-MB on the heap, anon-MB all of the process's own memory, at
# most 30; file-MB the pages of the mapping, which are the page cache's). Then the time and
# the allocations of one row, and of one exchange of a user who logs in, lists and posts.
#
#   bench/feed.sh | tee bench/feed.txt
#
# Settings, by environment:
#   CPU=1 COUNT=5
set -euo pipefail
cd "$(dirname "$0")/.."

cpu=${CPU:-1} count=${COUNT:-5}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
go test -c -o "$dir/feed" ./load/feed
go test -c -o "$dir/scenario" ./load/scenario
export GOMAXPROCS=1
taskset -c "$cpu" "$dir/feed" -test.run '^$' -test.bench 'Million|Next' -test.count "$count"
taskset -c "$cpu" "$dir/scenario" -test.run '^$' -test.bench 'Shop|Pattern' -test.count "$count"
