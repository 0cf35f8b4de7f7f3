#!/usr/bin/env bash
# The memory of an idle subscriber, at both ends: the resident memory that the hub and
# dyno grow by when 15,000 subscribe and nothing is published. Kernel memory, such as
# that of sockets, is in no process.
#
#   bench/events-idle.sh | tee bench/events-idle.txt
#
# Settings, by environment: SUBSCRIBERS=15000 ROUNDS=3 PORT=7811 HUB_CPU=0 LOAD_CPU=1
set -euo pipefail
cd "$(dirname "$0")/.."
n=${SUBSCRIBERS:-15000} port=${PORT:-7811}
hub=
trap '[ -z "$hub" ] || kill "$hub" 2>/dev/null || true' EXIT

# resident PID: its resident memory, in bytes.
resident() { awk '/^VmRSS:/ {print $2 * 1024}' "/proc/$1/status"; }

# load N: holds N subscribers for some seconds and prints dyno's memory and how many it had.
load() {
	./bin/dyno sse -c "$1" -z 20 --cpus "${LOAD_CPU:-1}" -q --json - "http://127.0.0.1:$port/events?topic=t" 2>/dev/null |
		jq -r '.variants[0] | "\(.figures["generator.rss"].estimate) \(.streams.peak)"'
}

echo "nproc $(nproc), kernel $(uname -r), $(./bin/dyno --version)"
least() { printf '%s\n' "$@" | sort -n | head -n 1; }
greatest() { printf '%s\n' "$@" | sort -n | tail -n 1; }

hub_each=() dyno_each=()
printf '%s\t%s\t%s\n' subscribers "hub, bytes each" "dyno, bytes each"
for _ in $(seq "${ROUNDS:-3}"); do
	taskset -c "${HUB_CPU:-0}" ./bin/dyno serve events --listen "127.0.0.1:$port" --heartbeat 0 >/dev/null 2>&1 &
	hub=$!
	until curl -so /dev/null "http://127.0.0.1:$port/"; do sleep 0.1; done
	read -r base _ < <(load 1)
	before=$(resident "$hub")
	load "$n" >"${TMPDIR:-/tmp}/events-idle.$$" &
	client=$!
	most=0
	while kill -0 "$client" 2>/dev/null; do
		# The last reading is of subscribers that have been idle for seconds.
		now=$(resident "$hub")
		[ "$now" -lt "$most" ] || most=$now
		last=$now
		sleep 0.5
	done
	read -r own had <"${TMPDIR:-/tmp}/events-idle.$$"
	rm -f "${TMPDIR:-/tmp}/events-idle.$$"
	printf '%s\t%s (most %s)\t%s\n' "$had" $(((last - before) / n)) $(((most - before) / n)) $(((own - base) / n))
	hub_each+=($(((last - before) / n))) dyno_each+=($(((own - base) / n)))
	kill "$hub"
	wait "$hub" 2>/dev/null || true
	hub=
done
echo "result: hub $(least "${hub_each[@]}")–$(greatest "${hub_each[@]}") B"
echo "result: dyno $(least "${dyno_each[@]}")–$(greatest "${dyno_each[@]}") B"
