#!/usr/bin/env bash
# Whether Envoy does what policies of the control plane say, counted by the servers behind it (nginx), under load by h2load:
#
#   split     of 100,000 requests, 10 % go to the second service
#   limit     at more requests than a policy permits, as many pass as it says
#   change    N Envoys apply a change of a policy: the time until Envoy's own record of its newest routes, which
#             /config_dump has, by Envoy's clock
#
#   bench/control-policies.sh | tee bench/control-policies.txt
#
# Settings, by environment:
#   ENVOYS=100 CHANGES=10 REQUESTS=100000 RATE=500 SECONDS_LIMITED=20 PORT=18400
#   CONTROL=…/bin/dyno-control CTL=…/bin/dyno ENVOY=…  (scripts/clients.sh installs one for tests)
set -euo pipefail
cd "$(dirname "$0")/.."
envoys=${ENVOYS:-100} changes=${CHANGES:-10} requests=${REQUESTS:-100000} rate=${RATE:-500} limited=${SECONDS_LIMITED:-20} port=${PORT:-18400}
control=${CONTROL:-$PWD/bin/dyno-control} ctl=${CTL:-$PWD/bin/dyno}
envoy=${ENVOY:-$PWD/services/control/xds/testdata/clients/python-envoy/envoy/_bin/envoy}
. bench/required.sh
required jq curl h2load nginx "$control" "$ctl" "$envoy"

dir=$(mktemp -d)
running=()
trap 'kill "${running[@]}" 2>/dev/null || true; wait 2>/dev/null || true; rm -rf "$dir"' EXIT

# until COMMAND…: waits until it succeeds.
until_() {
	for ((i = 0; i < 600; i++)); do
		"$@" >/dev/null 2>&1 && return
		sleep 0.1
	done
	echo "control-policies: never: $*" >&2
	cat "$dir"/log >&2
	exit 1
}

"$control" --listen "127.0.0.1:$port" --grpc "127.0.0.1:$((port + 1))" --admin "127.0.0.1:$((port + 2))" --data "$dir/data" 2>"$dir/log" &
running+=($!)
export DYNO_CTL_SERVER=127.0.0.1:$port
until_ curl -fs "http://127.0.0.1:$((port + 2))/readyz"

# Each service is an nginx, which counts its requests.
for n in 1 2; do
	cat >"$dir/nginx$n.conf" <<CONF
daemon off; worker_processes 1; pid $dir/nginx$n.pid; error_log $dir/nginx$n.log;
events { worker_connections 4096; }
http {
  access_log off; keepalive_requests 1000000;
  server { listen 127.0.0.1:$((port + 2 + n)) backlog=4096; location = /count { stub_status; } location / { return 200 "$n\n"; } }
}
CONF
	nginx -c "$dir/nginx$n.conf" &
	running+=($!)
	until_ curl -fs "http://127.0.0.1:$((port + 2 + n))/count"
	"$ctl" ctl register "shop-$n" 1 --address 127.0.0.1 --port $((port + 2 + n)) --ttl 3600 >/dev/null
done
# served N: the requests of a server so far, with those that ask.
served() { curl -s "http://127.0.0.1:$((port + 2 + $1))/count" | awk 'NR == 3 {print $3}'; }

# start N: an Envoy with the configuration of docs/services/control-xds.md, at a port of its own.
start() {
	{
		awk '/^```yaml/ {on = 1; next} /^```/ {on = 0} on' docs/services/control-xds.md |
			sed -e "s/id: edge-1/id: edge-$1/" -e "s/[0-9.]*:8080/127.0.0.1:$((port + 100 + $1))/" -e "s/port_value: 7101/port_value: $((port + 1))/"
		echo "admin: {address: {socket_address: {address: 127.0.0.1, port_value: $((port + 300 + $1))}}}"
	} >"$dir/envoy$1.yaml"
	"$envoy" -c "$dir/envoy$1.yaml" --concurrency 1 --disable-hot-restart --log-level error --use-dynamic-base-id 2>>"$dir/log" &
	running+=($!)
}

# apply RULES: a policy, and waits until N Envoys say that they have it.
apply() {
	printf 'kind: policy\nname: p\nrules: %s\n' "$1" >"$dir/p.yaml"
	"$ctl" ctl apply -f "$dir/p.yaml" >/dev/null
	"$ctl" ctl rollout status policy/p --wait --at-least "$2" --within 60s >/dev/null
}

echo "made by: ENVOYS=$envoys CHANGES=$changes REQUESTS=$requests RATE=$rate SECONDS_LIMITED=$limited bench/control-policies.sh"
echo "$(nproc) × $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1), Linux $(uname -r), $("$envoy" --version | sed -n 's/.*version: //p' | cut -d/ -f1-2 | tr '\n' ' '), $(date +%F)"
start 1
edge=http://127.0.0.1:$((port + 101))/
until_ curl -fs -H 'Host: shop-1' "$edge"

apply '[{match: {services: [shop-1]}, action: route, route: [{service: shop-1, weight: 90}, {service: shop-2, weight: 10}]}]' 1
before1=$(served 1) before2=$(served 2)
h2load --h1 -n "$requests" -c 16 -H ':authority: shop-1' "$edge" >"$dir/split"
# A look itself is a request.
one=$(($(served 1) - before1 - 1)) two=$(($(served 2) - before2 - 1))
grep '^requests:' "$dir/split"
awk -v a="$one" -v b="$two" 'BEGIN {printf "split: %d and %d requests: %.3f %% to the second service, wanted 10 %%\n", a, b, 100 * b / (a + b)}'
echo "result: split.percent $(awk -v a="$one" -v b="$two" 'BEGIN {print 100 * b / (a + b)}')"

apply "[{match: {services: [shop-1]}, action: limit, limit: {requests_per_second: $rate, burst: 1}}]" 1
sleep 1
before1=$(served 1)
began=$(date +%s%N)
h2load --h1 -D "$limited" -c 4 -H ':authority: shop-1' "$edge" >"$dir/limit"
took=$((($(date +%s%N) - began) / 1000))
one=$(($(served 1) - before1 - 1))
sed -n 's/^status codes:/limit: h2load has/p' "$dir/limit"
awk -v n="$one" -v us="$took" -v rate="$rate" 'BEGIN {r = n / us * 1e6; printf "limit: %d requests passed in %.3f s: %.2f/s, %+.2f %% of %d/s\nresult: limit.off_percent %.3f\n", n, us / 1e6, r, 100 * (r / rate - 1), rate, 100 * (r / rate - 1)}'

for ((n = 2; n <= envoys; n++)); do start "$n"; done
for ((n = 2; n <= envoys; n++)); do until_ curl -fs -H 'Host: shop-1' "http://127.0.0.1:$((port + 100 + n))/"; done
for ((c = 1; c <= changes; c++)); do
	# The control plane's record of the change, in milliseconds since 1970, and each Envoy's of its newest routes.
	apply "[{match: {services: [shop-1]}, action: timeout, timeout_seconds: $c}]" "$envoys"
	changed=$(curl -s "http://127.0.0.1:$port/v1/policies/p" | jq -r .changed_at)
	for ((n = 1; n <= envoys; n++)); do
		curl -s "http://127.0.0.1:$((port + 300 + n))/config_dump?resource=dynamic_route_configs" | jq -r '.configs[] | select(.route_config.name == "services") | .last_updated'
	done | while read -r at; do echo "$(($(date -d "$at" +%s%3N) - $(date -d "$changed" +%s%3N)))"; done
done | sort -n >"$dir/times"
awk '{t[NR] = $1} END {p = int((NR * 99 + 99) / 100); printf "change: %d times of %d Envoys in all: median %d ms, P99 %d ms, longest %d ms\nresult: change.p99_ms %d\n", NR, '"$envoys"', t[int((NR + 1) / 2)], t[p], t[NR], t[p]}' "$dir/times"
