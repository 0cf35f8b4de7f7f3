#!/usr/bin/env bash
# Very many subscribers of the event hub in one run, by six agents. The machines are network namespaces of
# this one, so that each agent has ports and descriptors of its own.
#
#   one    one hub. Where a process may not have enough descriptors (ulimit -n), as many subscribers as
#          it has room for
#   nodes  six processes that share one history in Redis, as replicas of one hub do: each machine reaches
#          its own at the same address. It takes Redis
#
# While all are subscribed, an event is published every EVERY seconds. The result says how many subscribers
# there were at once, how many events they got and should have got, and what memory and descriptors the
# processes had meanwhile. The kernel's memory is by how much its slabs grew, with those of whatever else
# runs.
#
#   bench/fleet-connections.sh | tee bench/fleet-connections.txt
#
# Needs root. Settings, by environment:
#   PARTS="one nodes" CONNECTIONS=100000 AGENTS=6 EVERY=5 SECONDS_EACH=30 RAMP=1500 NETWORK=10.99.0 DYNO=…/bin/dyno
set -euo pipefail
cd "$(dirname "$0")/.."
parts=${PARTS:-one nodes} connections=${CONNECTIONS:-100000} agents=${AGENTS:-6} every=${EVERY:-5} seconds=${SECONDS_EACH:-30} ramp=${RAMP:-1500}
dyno=${DYNO:-$PWD/bin/dyno} port=7811

. bench/required.sh
required ip curl jq "$dyno"
if [ "$(id -u)" -ne 0 ]; then
	echo "fleet-connections: network namespaces need root" >&2
	exit 1
fi
dir=$(mktemp -d)
. bench/namespaces.sh
trap 'remove; rm -rf "$dir"' EXIT
for ((k = 0; k <= agents; k++)); do machine "$k"; done
authority "$agents"
for ((k = 1; k <= agents; k++)); do agent "$k"; done

# on K COMMAND…: runs it on a machine.
on() {
	local k=$1
	shift
	ip netns exec "$space-$k" "$@"
}
# used K PATTERN: the resident memory in KiB, and the descriptors, of each process on a machine that has such a
# command line.
used() {
	local p
	for p in $(pids "$1"); do
		tr '\0' ' ' <"/proc/$p/cmdline" 2>/dev/null | grep -q -- "$2" || continue
		echo "$(awk '/^VmRSS:/ {print $2}' "/proc/$p/status") $(find "/proc/$p/fd" -mindepth 1 2>/dev/null | wc -l)"
	done
}
# sum: of what used prints, in MiB, and the most descriptors of one.
sum() { awk '{rss += $1; open += $2; if ($2 > most) most = $2} END {printf "%.0f %d %d\n", rss / 1024, open, most}'; }
slab() { awk '/^Slab:/ {print $2}' /proc/meminfo; } # the kernel's memory for sockets and files, in KiB
metric() { on "$1" curl -fs "http://127.0.0.1:7911/metrics" | awk -v name="$2" '$1 == name {print $2 + 0}'; }

# run NAME N URL HUBS: N subscribers of a URL; the hubs are on these machines.
run() {
	local name=$1 n=$2 url=$3 hubs=$4 k all left code=0 load before after
	before=$(slab)
	on 0 "$dyno" sse -q -c "$n" --ramp "$ramp" -z "$seconds" --warmup 0 -o "$dir/$name" "${fleet[@]}" "$url" >"$dir/$name.out" 2>&1 &
	load=$!
	for ((left = 3000; left > 0; left--)); do
		all=0
		for k in $hubs; do all=$((all + $(metric "$k" events_subscribers || echo 0))); done
		[ "$all" -lt "$n" ] || break
		kill -0 "$load" 2>/dev/null || break
		sleep 0.1
	done
	after=$(slab)
	read -r hub_rss hub_open hub_most < <(for k in $hubs; do used "$k" 'serve events'; done | sum)
	read -r part_rss part_open part_most < <(for ((k = 1; k <= agents; k++)); do used "$k" __carry-part; done | sum)
	local until=$((SECONDS + seconds - 5)) events=0
	while [ "$SECONDS" -lt "$until" ] && kill -0 "$load" 2>/dev/null; do
		on "${hubs%% *}" curl -fso /dev/null -d "event $events" "${url%/events*}/publish?topic=t"
		events=$((events + 1))
		sleep "$every"
	done
	wait "$load" || code=$?
	[ "$code" -eq 0 ] || [ "$code" -eq 4 ] || {
		cat "$dir/$name.out" >&2
		exit 1
	}
	cat "$dir/$name.out"
	echo
	jq -r --arg name "$name" --argjson wanted "$((n * events))" '[
		["agents", (.agents | length)], ["requested", .streams.requested], ["at_once", .streams.peak], ["failed", .streams.failed], ["ended", .streams.ended],
		["delivered", .streams.all_delivered], ["delivered_if_all", $wanted]] | .[] | "result: \($name).\(.[0]) \(.[1])"' "$dir/$name"/trials/*/trial.json
	echo "result: $name.hub_mib $hub_rss"
	echo "result: $name.hub_descriptors $hub_open"
	echo "result: $name.hub_descriptors_most_of_one $hub_most"
	echo "result: $name.agents_mib $part_rss"
	echo "result: $name.agents_descriptors $part_open"
	echo "result: $name.agents_descriptors_most_of_one $part_most"
	echo "result: $name.kernel_mib $(((after - before) / 1024))"
}
# hub K LISTEN FLAG…: starts a hub on a machine.
hub() {
	local k=$1 listen=$2
	shift 2
	on "$k" "$dyno" serve events --listen "$listen:$port" --admin 127.0.0.1:7911 --max-subscribers 1000000 --max-per-address 1000000 --heartbeat 0 "$@" >>"$dir/hub-$k.log" 2>&1 &
	listens "$k" "$listen:$port"
}

limit=$(ulimit -n)
echo "made by: PARTS='$parts' CONNECTIONS=$connections AGENTS=$agents EVERY=$every SECONDS_EACH=$seconds RAMP=$ramp bench/fleet-connections.sh"
echo "nproc $(nproc), kernel $(uname -r), descriptors of a process $limit, $("$dyno" --version | head -n 1)"
if [[ " $parts " = *" one "* ]]; then
	printf '\none\n'
	n=$connections
	[ "$n" -le $((limit - 100)) ] || n=$((limit - 100))
	hub 0 "$network.1" --allow-remote --anonymous-publish
	run one "$n" "http://$network.1:$port/events?topic=t" 0
fi
if [[ " $parts " = *" nodes "* ]]; then
	printf '\nnodes\n'
	required redis-server
	on 0 redis-server --bind "$network.1" --port 6379 --protected-mode no --save '' --dir "$dir" >"$dir/redis.log" 2>&1 &
	listens 0 "$network.1:6379"
	hubs=
	for ((k = 1; k <= agents; k++)); do
		hub "$k" 127.0.0.1 --history redis --redis "$network.1:6379"
		hubs+=" $k"
	done
	run nodes "$connections" "http://127.0.0.1:$port/events?topic=t" "${hubs# }"
fi
