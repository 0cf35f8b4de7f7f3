#!/usr/bin/env bash
# The bytes that an event of 100 bytes takes on the wire, with all headers and acknowledgements, by how it is sent:
#
#   polling   each in an answer to a request on a connection of its own
#   lines     in chunks, a write for each line, as the first step of R4-sse-ladder.yaml
#   single    in one write
#   loop      from the event loop, with others that come at the same time
#
# Prints one line of JSON. The loopback interface of a network namespace counts the bytes, each once. It needs the right
# to make one. 200 subscribers get events of four publishers, so what publishing takes hardly counts.
#
#   bandwidth.sh HOW SECONDS     (dyno and events-variants are in $BIN, by default bin/)
set -euo pipefail
how=$1 seconds=$2 bin=${BIN:-bin}
[ -n "${INSIDE:-}" ] || exec env INSIDE=1 unshare --net bash "$0" "$@"
ip link set lo up
server= result=$(mktemp)
trap '[ -z "$server" ] || kill "$server" 2>/dev/null || true; rm -f "$result"' EXIT
counted() { awk '$1 == "lo:" {print $2}' /proc/net/dev; }
at=127.0.0.1:7810
case $how in
polling) "$bin/dyno" serve echo --http $at & ;;
lines) "$bin/events-variants" --listen $at --single-write=false --hijack=false --event-loop=false --outcome block & ;;
single) "$bin/events-variants" --listen $at --event-loop=false --outcome block & ;;
loop) "$bin/events-variants" --listen $at --outcome block & ;;
*) echo "bandwidth: want polling, lines, single or loop, not $how" >&2; exit 2 ;;
esac 2>/dev/null
server=$!
until (: <"/dev/tcp/${at%:*}/${at#*:}") 2>/dev/null; do sleep 0.05; done
load=(sse -c 200 --publish '/publish?topic=t' --publishers 4 --size 100 "http://$at/events?topic=t")
[ "$how" != polling ] || load=(http -c 4 --requests-per-connection 1 --body "$(printf '%0100d' 0)" "http://$at/")
before=$(counted)
"$bin/dyno" "${load[@]}" -q -z "$seconds" --warmup 0 --json - 2>/dev/null >"$result" || [ $? -eq 4 ]
bytes=$(($(counted) - before))
jq -c --argjson bytes "$bytes" '.variants[0] | (.streams.all_delivered // .counts.ok) as $n |
	{events: $n, bytes_per_event: ($bytes / $n)}' "$result"
