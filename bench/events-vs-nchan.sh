#!/usr/bin/env bash
# How much CPU time of the server an event takes that is delivered to one of 1,000
# subscribers: the hub's event loop against nchan, a module of nginx. Server on one
# CPU, subscribers and publisher on another, the same rate of events for both.
#
#   bench/events-vs-nchan.sh | tee bench/events-vs-nchan.txt
#
# Over loopback the kernel does the subscriber's share of TCP in the server's send
# call and charges the server for it, which is half of what both then seem to
# take. So the benchmark has a network namespace of its own, in which receive
# packet steering puts that share on the subscribers' CPU, as a network would put it
# on their machine. STEER=no leaves it where it is.
#
# Settings, by environment:
#   ROUNDS=8 WINDOW=4s SUBSCRIBERS=1000 SIZE=100 RATES="50 100" STEER=yes
#   TWICE=true (nchan against itself as well; false: once)  SERVER_CPU=0 LOAD_CPU=1
#   HUB="…"  the hub's command; {{port}} stands for the port that it shall listen on
set -euo pipefail
cd "$(dirname "$0")/.."

. bench/required.sh
. bench/nginx.sh
dyno=${DYNO:-$PWD/bin/dyno}
hub=${HUB:-"$dyno serve events --event-loop --listen 127.0.0.1:{{port}}"}
module=/usr/lib/nginx/modules/ngx_nchan_module.so
required nginx unshare ip jq "$dyno" "$module"

# The namespaces end with this process. Who is not root is root in one of its own.
if [ -z "${EVENTS_INSIDE-}" ]; then
	root=()
	[ "$(id -u)" -eq 0 ] || root=(--map-root-user)
	EVENTS_INSIDE=1 exec unshare --net --mount ${root[@]+"${root[@]}"} "$0" "$@"
fi
dir=$(mktemp -d)
trap 'umount "$dir/sys" 2>/dev/null || true; rm -rf "$dir"' EXIT
ip link set lo up
load_cpu=${LOAD_CPU:-1}
if [ "${STEER:-yes}" = yes ]; then
	mkdir "$dir/sys"
	mount -t sysfs sysfs "$dir/sys" # this namespace's view
	printf '%x' $((1 << load_cpu)) >"$dir/sys/class/net/lo/queues/rx-0/rps_cpus"
fi

{
	echo "load_module $module;"
	nginx_conf "$dir" <<CONF
	server {
		listen 127.0.0.1:PORT backlog=4096;
		nchan_channel_id \$arg_topic;
		nchan_message_buffer_length 1000;
		location = /events { nchan_subscriber eventsource; }
		location = /publish { nchan_publisher; }
	}
CONF
} >"$dir/nginx.conf"
nchan="sed s/PORT/{{port}}/ $dir/nginx.conf >$dir/nginx-{{port}}.conf; exec nginx -c $dir/nginx-{{port}}.conf"

for rate in ${RATES:-50 100}; do
	cat >"$dir/plan.yaml" <<PLAN
name: events-vs-nchan
question: At $rate events/s, how much CPU time does the server take to deliver one?
awake: true
target:
  protocol: sse
  start: [sh, -c, "{{command}}"]
  ready: tcp
  url: http://127.0.0.1:{{port}}/events?topic=t{topic}
  cpus: "${SERVER_CPU:-0}"
load:
  cpus: "$load_cpu"
  subscribers: {connections: ${SUBSCRIBERS:-1000}}
  publish: {path: "/publish?topic=t{topic}", size: ${SIZE:-100}}
  open: {rate: $rate/s, max_connections: 4}
  warmup: 1s
  window: ${WINDOW:-4s}
design: {rounds: ${ROUNDS:-8}, seed: 1, metric: target.cpu_per_request, control: ${TWICE:-true}}
observe: {kernel: none}
compare:
  base: nchan
  variants:
    nchan: {command: "$nchan"}
    hub: {command: "exec $hub"}
claims:
  - id: events/cpu
    says: the hub makes 1.3 times as many deliveries of a CPU-second as nchan
    holds: ratio(nchan, hub, target.cpu_per_request) >= 1.3
PLAN
	code=0
	"$dyno" run -q -o "$dir/run-$rate" "$dir/plan.yaml" || code=$?
	# 4: the machine was too busy, or the generator near its limit. The report says
	# so, and has the figures all the same.
	[ "$code" -eq 0 ] || [ "$code" -eq 4 ] || exit "$code"
	echo
	# Deliveries per CPU-second.
	jq -r -L bench --arg at "$([ "${STEER:-yes}" = yes ] && echo steered || echo unsteered).$rate" 'include "result";
		(.variants[] | select(.name == "hub" or .name == "nchan") | "result: \($at).\(.name) \(1 / .figures["target.cpu_per_request"].estimate)"),
		"result: \($at).ratio \(of("nchan"; "hub"; "target.cpu_per_request") | inverse | interval)"' "$dir/run-$rate/run.json"
	echo
done
