#!/usr/bin/env bash
# As many subscribers at once as N, of hubs that share one history, by six agents on machines of their own (network
# namespaces): bench/fleet-connections.sh. Prints one line of JSON: requested, at_once, failed, ended, delivered and
# delivered_if_all; the memory of a subscriber in the hubs (hub_bytes), and in the kernel, at both ends (kernel_bytes).
#
#   connections.sh N     (dyno is in bin/)
set -euo pipefail
PARTS=nodes CONNECTIONS=$1 RAMP=6000 EVERY=5 SECONDS_EACH=20 bash bench/fleet-connections.sh |
	jq -cnR '[inputs | capture("^result: nodes\\.(?<key>\\w+) (?<value>[0-9]+)$") | .value |= tonumber] | from_entries |
		{requested, at_once, failed, ended, delivered, delivered_if_all,
		 hub_bytes: (.hub_mib * 1048576 / .requested), kernel_bytes: (.kernel_mib * 1048576 / .requested)}'
