#!/usr/bin/env bash
# Three replicas of the control plane over three members of etcd, to which everything happens
# that happens to machines, in an order that a seed decides, while eight clients write and read, and
# six watch:
#
#   kill       SIGKILL of a replica or a member, or of all members at once; started again at once
#   stop       SIGSTOP of one, or of a majority of the members, for up to two seconds
#   partition  one that nobody reaches, that only clients reach, or that others do not hear, or
#              members none of whom reaches another; each process has a network namespace
#   disk       nothing is left of a member's disk, which is a tmpfs of its own
#
# Before that, etcd is away for longer than 1,000 instances may be silent.
#
# Fails if an instance is lost, or not all are visible within 10 s of etcd's return, if a write that
# was acknowledged is lost, if no order explains what clients read of a resource
# (https://github.com/anishathalye/porcupine), if a watcher gets a change twice, in another order or
# never, without a resync, or if not all clients write again within a minute.
#
#   bench/control-faults.sh | tee bench/control-faults.txt
#
# Settings, by environment: FAULTS=10 (of each kind in a run) SEEDS="1 2 3 4 5" (runs)
#   LAYOUTS="within apart" (members in the replicas' processes, or processes of their own; each run
#   has the next of them) KINDS="kill stop partition disk" TEST=… (the test, compiled)
# Networks and disks need root. Without it they are left out, which the output says.
set -euo pipefail
cd "$(dirname "$0")/.."
. bench/required.sh
required go ip
faults=${FAULTS:-10} kinds=${KINDS:-kill stop partition disk}
read -ra seeds <<<"${SEEDS:-1 2 3 4 5}"
read -ra layouts <<<"${LAYOUTS:-within apart}"
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
test=${TEST:-$dir/faults.test}
[ -n "${TEST-}" ] || go test -c -vet=off -o "$test" ./services/control/faults
echo "nproc $(nproc), kernel $(uname -r), $faults faults of each kind in a run: $kinds"
# run NAME SETTING…: a test, and what it has to say.
run() {
	local name=$1
	shift
	(cd "$dir" && env FAULTS="$faults" KINDS="$kinds" "$@" "$test" -test.run "^$name\$" -test.v -test.timeout 20m) >"$dir/log" 2>&1 || { cat "$dir/log"; exit 1; }
	sed -n 's/^ *[a-z]*_test.go:[0-9]*: //p' "$dir/log" | tee -a "$dir/all"
}
run TestOutage
for i in "${!seeds[@]}"; do
	echo
	run TestFaults SEED="${seeds[i]}" LAYOUT="${layouts[i % ${#layouts[@]}]}"
done
echo
for kind in $kinds; do
	echo "result: faults.$kind $(sed -n "s/^faults: .*$kind \([0-9]*\).*/\1/p" "$dir/all" | awk '{ n += $1 } END { print n + 0 }')"
done
echo "result: writes.acknowledged $(sed -n 's/^clients: .* \([0-9]*\) writes acknowledged.*/\1/p' "$dir/all" | awk '{ n += $1 } END { print n + 0 }')"
echo "result: writes.lost 0"
echo "result: instances.lost 0"
