# Sourced by benchmarks of a fleet: machines that are network namespaces of this one. Number 0 is the
# coordinator's. It has a bridge with the address $network.1, and machine K an address on it.
#
# They set dir, an empty folder, and dyno, the program.

network=${NETWORK:-10.99.0} space=dyno-$$ machines=()

# address K: that of a machine.
address() { [ "$1" -eq 0 ] && echo "$network.1" || echo "$network.$((10 + $1))"; }

# machine K: makes a machine.
machine() {
	ip netns add "$space-$1"
	machines+=("$1")
	ip -n "$space-$1" link set lo up
	if [ "$1" -eq 0 ]; then
		ip -n "$space-0" link add bridge type bridge
		ip -n "$space-0" addr add "$network.1/24" dev bridge
		ip -n "$space-0" link set bridge up
		return
	fi
	ip -n "$space-0" link add "to-$1" type veth peer name eth0 netns "$space-$1"
	ip -n "$space-0" link set "to-$1" master bridge up
	ip -n "$space-$1" addr add "$(address "$1")/24" dev eth0
	ip -n "$space-$1" link set eth0 up
}

# pids K: the processes on a machine.
pids() { ip netns pids "$space-$1"; }

# remove: ends all that runs on the machines, and removes them.
remove() {
	local k left
	for k in "${machines[@]}"; do
		pids "$k" | xargs -r kill 2>/dev/null || true
	done
	for ((left = 50; left > 0; left--)); do
		[ -n "$(for k in "${machines[@]}"; do pids "$k"; done)" ] || break
		sleep 0.1
	done
	for k in "${machines[@]}"; do
		pids "$k" | xargs -r kill -KILL 2>/dev/null || true
		ip netns del "$space-$k"
	done
	machines=()
}

# listens K HOST:PORT: waits until somebody listens there, as seen from a machine.
listens() {
	local left
	for ((left = 300; left > 0; left--)); do
		ip netns exec "$space-$1" bash -c ": </dev/tcp/${2%:*}/${2##*:}" 2>/dev/null && return
		sleep 0.1
	done
	echo "$(basename "$0" .sh): nobody listens at $2" >&2
	tail -n 5 "$dir"/*.log >&2
	return 1
}

# authority N: lets N agents join the fleet.
authority() {
	ip netns exec "$space-0" "$dyno" fleet authority --listen "$network.1:7200" --allow-remote --folder "$dir/keys" --members "$1" >"$dir/authority" 2>"$dir/authority.log" &
	listens 0 "$network.1:7200"
	token=$(sed -n 's/.*DYNO_JOIN_TOKEN=\([^ ]*\) .*/\1/p' "$dir/authority")
}

# agent K [COMMAND…]: starts an agent on machine K, by a command that starts another. Loads use the
# agents by ${fleet[@]}.
agent() {
	local k=$1
	shift
	DYNO_JOIN_TOKEN=$token ip netns exec "$space-$k" "$@" "$dyno" agent --name "agent-$k" --identity "$dir/agent-$k" --join "$network.1:7200" \
		--listen "$(address "$k"):7300" --allow-remote --files "$dir" >>"$dir/agent-$k.log" 2>&1 &
	listens 0 "$(address "$k"):7300"
	fleet+=(--agent "$(address "$k"):7300")
}
fleet=(--identity "$dir/keys")
