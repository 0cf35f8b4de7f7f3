#!/usr/bin/env bash
# Three replicas of the control plane over three members of etcd, to which everything happens
# that happens to machines, in an order that a seed decides. Meanwhile
#
#   8 clients  write and read configurations and policies, and 6 watch them
#   4 clients  use locks and counters
#   12 checks  are made of instances each second: a third of their servers always answers, a third refuses from some
#              moment on, and a third now and then
#   3 clients  change policies (put, release, promote, roll back), and 3 get them over xDS, of which one refuses them
#
# The faults:
#
#   kill       SIGKILL of a replica or a member, or of all members at once; started again at once
#   stop       SIGSTOP of one, or of a majority of the members, for up to two seconds
#   partition  one that nobody reaches, that only clients reach, or that others do not hear, or
#              members none of whom reaches another; each process has a network namespace
#   disk       nothing is left of a member's disk, which is a tmpfs of its own
#
# A quarter of the stops, partitions and full disks lasts 5 s longer: other replicas make the checks then.
#
# Before that, etcd is away for longer than 1,000 instances may be silent.
#
# Fails if an instance is lost, or not all are visible within 10 s of etcd's return, if a write that
# was acknowledged is lost, if no order explains what clients read of a resource
# (https://github.com/anishathalye/porcupine), if a watcher gets a change twice, in another order or
# never, without a resync, or if not all clients write again within a minute. Fails if no order explains locks, counters
# or versions of policies; if an instance is critical whose server has always answered, or healthy again although its
# server refuses; if not all instances are checked and shown as they are, a minute after a fault at the latest; if a
# client of xDS gets an older version, or other rules than those of the version, or not the newest in the end; or if no
# rollout has its refusals.
#
#   bench/control-faults.sh | tee bench/control-faults.txt
#
# Settings, by environment: FAULTS=10 (of each kind in a run) SEEDS="1 2 3 4 5 6 7" (runs)
#   LAYOUTS="within apart" (members in the replicas' processes, or processes of their own; each run
#   has the next of them) KINDS="kill stop partition disk" TEST=… (the test, compiled)
# Networks and disks need root. Without it they are left out, which the output says.
set -euo pipefail
cd "$(dirname "$0")/.."
. bench/required.sh
required go ip
faults=${FAULTS:-10} kinds=${KINDS:-kill stop partition disk}
read -ra seeds <<<"${SEEDS:-1 2 3 4 5 6 7}"
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
# total NAME PATTERN: the sum of the numbers that a pattern finds, one in a run.
total() {
	echo "result: $1 $(sed -n "s/$2/\1/p" "$dir/all" | awk '{ n += $1 } END { print n + 0 }')"
}
for kind in $kinds; do
	total "faults.$kind" "^faults: .*$kind \([0-9]*\).*"
done
total writes.acknowledged '^clients: .* \([0-9]*\) writes acknowledged.*'
total locks.steps '^locks and counters: \([0-9]*\) .*'
total checks.made '^checks: \([0-9]*\) .*'
total checks.health_changes '^checks: .* \([0-9]*\) changes of health.*'
total policies.versions '^policies: \([0-9]*\) .*'
total policies.versions_over_xds '^policies: .* \([0-9]*\) versions judged.*'
total policies.refusals_over_xds '^policies: .* \([0-9]*\) refusals.*'
echo "result: writes.lost 0"
echo "result: instances.lost 0"
