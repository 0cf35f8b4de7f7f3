#!/usr/bin/env bash
# Four agents on four machines against one generator, with the same plan and seed. The machines are
# network namespaces of this one; the last has another CLOCK_MONOTONIC, 100 s ahead. The referee
# (experiments/bench/requestlog) is an HTTP server that writes down the bytes of each request and when the kernel
# received it, and HdrHistogram's library. It fails unless
#
#   schedule   both have sent the same requests, byte for byte, and the agents began within 1 ms
#   clocks     the offset of each agent's clock was found within its stated error, in each of ROUNDS
#   merged     each bucket of the merged histograms has the sum of the agents'
#
#   bench/fleet-namespaces.sh | tee bench/fleet-namespaces.txt
#
# Needs root: it makes the namespaces, and removes them. Settings, by environment:
#   SECONDS_EACH=10 RATE=1000 ROUNDS=20 NETWORK=10.99.0 DYNO=…/bin/dyno
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${SECONDS_EACH:-10} rate=${RATE:-1000} rounds=${ROUNDS:-20} dyno=${DYNO:-$PWD/bin/dyno} ahead=100

. bench/required.sh
required ip unshare jq "$dyno"
if [ "$(id -u)" -ne 0 ]; then
	echo "fleet-namespaces: network namespaces need root" >&2
	exit 1
fi
dir=$(mktemp -d)
. bench/namespaces.sh
trap 'remove; rm -rf "$dir"' EXIT
go build -o "$dir" ./experiments/bench/requestlog ./experiments/bench/fleet

for k in 0 1 2 3 4; do machine "$k"; done
authority 4
for k in 1 2 3; do agent "$k"; done
agent 4 unshare --time --monotonic "$ahead" --boottime "$ahead" --fork --kill-child

{
	echo id,name
	for ((i = 0; i < 4999; i++)); do echo "$i,item $((i * 7919 % 10007))"; done
} >"$dir/items.csv"
cat >"$dir/plan.yaml" <<YAML
name: schedule
target: {protocol: http, url: "http://$network.1:8080"}
design: {rounds: 1, seed: 7}
load:
  open: {rate: $rate/s, arrivals: poisson, max_connections: 64}
  warmup: 1s
  window: ${seconds}s
  scenario:
    data: {items: {file: items.csv, order: shuffled}}
    steps:
      - {name: put, method: POST, path: "/{{ counter() }}?id={{ id }}", headers: {X-Name: "{{ name }}"}, body: '{"id":{{ id }},"name":"{{ json_escape(name) }}"}'}
YAML

# load NAME K FLAG…: runs the plan on machine K, and writes down what the server gets.
load() {
	local name=$1 k=$2 code=0 server
	shift 2
	ip netns exec "$space-0" "$dir/requestlog" serve --listen "$network.1:8080" --save "$dir/$name.requests" 2>>"$dir/server.log" &
	server=$!
	listens "$k" "$network.1:8080"
	ip netns exec "$space-$k" "$dyno" run -q -o "$dir/$name" "$@" "$dir/plan.yaml" >"$dir/$name.out" 2>&1 || code=$?
	kill "$server"
	wait "$server"
	[ "$code" -eq 0 ] || [ "$code" -eq 4 ] || { # 4: this machine may be too busy for the figures themselves
		cat "$dir/$name.out" >&2
		exit 1
	}
}
failed=
echo "made by: SECONDS_EACH=$seconds RATE=$rate ROUNDS=$rounds bench/fleet-namespaces.sh"
echo "nproc $(nproc), kernel $(uname -r), $("$dyno" --version | head -n 1)"

printf '\nschedule\n'
load alone 1
load shared 0 "${fleet[@]}"
"$dir/requestlog" compare "$dir/alone.requests" "$dir/shared.requests" || failed+=" schedule"

printf '\nclocks\n'
ip netns exec "$space-0" "$dir/fleet" clocks --identity "$dir/keys" --version "$("$dyno" version | sed -n '1s/^dyno //p')" --rounds "$rounds" \
	--ahead "agent-4=${ahead}s" "${fleet[@]:2}" || failed+=" clocks"
# The times of day are one clock's.
jq -r '.agents[] | "result: day.\(.name)_us \(.clock_offset_seconds * 1e9 | round / 1000) ±\(.clock_error_seconds * 1e9 | round / 1000)",
	if (.clock_offset_seconds | fabs) > .clock_error_seconds then error("the time of day of \(.name) is not within its error") else empty end' \
	"$dir"/shared/trials/*/trial.json || failed+=" times-of-day"

printf '\nmerged\n'
plain=()
for k in 1 2 3 4; do
	ip netns exec "$space-$k" "$dyno" agent --name "plain-$k" --listen 127.0.0.1:7400 --files "$dir" >>"$dir/agent-$k.log" 2>&1 &
	listens "$k" 127.0.0.1:7400
	ip netns exec "$space-$k" "$dir/requestlog" relay --listen "$(address "$k"):7401" --to 127.0.0.1:7400 --save "$dir/reported-$k" 2>>"$dir/relay.log" &
	listens 0 "$(address "$k"):7401"
	plain+=(--agent "$(address "$k"):7401")
done
load merged 0 "${plain[@]}"
"$dir/requestlog" merged "$dir"/merged/trials/*/latency.hlog "$dir"/reported-? || failed+=" merged"

if [ -n "$failed" ]; then
	printf '\nfailed:%s\n' "$failed"
	exit 1
fi
