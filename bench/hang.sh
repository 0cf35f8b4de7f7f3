#!/usr/bin/env bash
# Does a target ever freeze because of what dyno does to the machine? Trials of a relay with
# 1,000 connections, many times over: how many of them had no answer in their window or
# fewer connections than asked for, and the longest that any answer took. Such a trial
# counts as starved, not as frozen, if dyno itself waited for its CPU for more than a
# fifth of the window, or if other programs used more than a tenth of all CPUs. In a
# freeze the CPUs are to be had.
#
#   bench/hang.sh | tee bench/hang.txt
#
# Settings, by environment: CHUNKS=10 (of 100 trials each) AWAKE=true
# LOCK=FILE (held for each chunk, where others measure on the same machine).
# Needs jq and two CPUs.
set -euo pipefail
cd "$(dirname "$0")/.."
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
go build -trimpath -o "$dir/dyno" ./cmd/dyno
lock() { if [ -n "${LOCK:-}" ]; then flock "$LOCK" "$@"; else "$@"; fi; }

echo "nproc $(nproc), kernel $(uname -r), preemption $(uname -v | grep -o 'PREEMPT[A-Z_]*' || echo none), autogroup $(cat /proc/sys/kernel/sched_autogroup_enabled 2>/dev/null || echo absent)"
all=0 frozen=0 starved=0 slowest=0
for chunk in $(seq "${CHUNKS:-10}"); do
	code=0
	lock "$dir/dyno" run -q --set "awake=${AWAKE:-true}" --set "seed=$chunk" -o "$dir/run" bench/hang.yaml >/dev/null 2>"$dir/err" || code=$?
	# 3: a target did not answer. 4: the machine was too busy to trust the figures.
	# Whether a trial froze they do say.
	[ "$code" -eq 0 ] || [ "$code" -eq 3 ] || [ "$code" -eq 4 ] || { cat "$dir/err" >&2; exit "$code"; }
	read -r n none waited longest steal < <(jq -rs 'def starved: .generator.run_queue_wait_share > 0.2 or (.machine.foreign_share // 0) > 0.1;
		map(select(.complete and (.counts.completed_in_window > 0) and (.connections.opened >= .connections.requested) | not)) as $none | [
		length,
		($none | map(select(starved | not)) | length),
		($none | map(select(starved)) | length),
		(map(.times.response.max_seconds // 0) | max * 1e3 | round),
		(map(.machine.steal_share // 0) | add / length * 1e4 | round / 100)] | @tsv' "$dir"/run/trials/*/trial.json)
	echo "chunk $chunk: $n trials, $none froze, $waited starved, longest answer $longest ms, steal $steal %"
	all=$((all + n)) frozen=$((frozen + none)) starved=$((starved + waited)) slowest=$((longest > slowest ? longest : slowest))
	rm -rf "$dir/run"
done
echo "all: $all trials, $frozen froze, $starved starved, longest answer $slowest ms"
