#!/usr/bin/env bash
# Run a service whose CPUs follow the pressure on them, without a change to it:
#
#   experiments/subjects/pressure.sh check            exit code 3, with the reason, where this machine lacks what it takes
#   experiments/subjects/pressure.sh CPU,CPU… COMMAND…
#
# Five times a second it reads cpu.pressure of the service's control group: for how long some thread was ready to run and
# had no CPU. After more than a fifth of the time, the service may use the CPU alone that has idled most (cpuset.cpus). After the
# others have idled for half of the time, it may use all again. A Go program sets GOMAXPROCS to the number of CPUs that it
# may use, within a second. It needs root; control groups may be of either version.
set -euo pipefail
pressure=$(findmnt -n -t cgroup2 -o TARGET | head -n 1) sets=$(findmnt -n -t cgroup -O cpuset -o TARGET | head -n 1) || true
[ -n "$sets" ] || { grep -qsw cpuset "$pressure/cgroup.subtree_control" && sets=$pressure; } || true
if [ ! -w "$pressure/cgroup.procs" ] || [ ! -e "$pressure/cpu.pressure" ] || [ ! -w "${sets:-/none}/cgroup.procs" ]; then
	echo "it needs root, and control groups with cpu.pressure and cpuset"
	exit 3
fi
[ "$1" != check ] || exit 0
all=$1
shift
IFS=, read -ra cpus <<<"$all"
pressure+=/dyno_$$ sets+=/dyno_$$
mkdir -p "$pressure" "$sets"
[ -n "$(<"$sets/cpuset.mems")" ] || cat "${sets%/*}/cpuset.mems" >"$sets/cpuset.mems"
echo "$all" >"$sets/cpuset.cpus"
echo $$ >"$pressure/cgroup.procs"
echo $$ >"$sets/cgroup.procs"

follow() {
	local waited=0 before word idle moved free quietest most now=$all was=$all
	local -A last
	echo $BASHPID >"${pressure%/*}/cgroup.procs" # its own threads are no pressure
	echo $BASHPID >"${sets%/*}/cgroup.procs"
	while sleep 0.2 && kill -0 $$ 2>/dev/null; do
		before=$waited
		read -r _ _ _ _ waited <"$pressure/cpu.pressure"
		waited=${waited#total=}
		free=1 quietest='' most=-1
		while read -r word _ _ _ idle _; do
			case " ${cpus[*]/#/cpu} " in *" $word "*) ;; *) continue ;; esac
			moved=$((idle - ${last[$word]:-idle})) last[$word]=$idle
			[ "$moved" -le "$most" ] || most=$moved quietest=${word#cpu}
			[ "${word#cpu}" = "$now" ] || [ "$moved" -ge 10 ] || free= # of 20 ticks of 10 ms
		done </proc/stat
		if [ $((waited - before)) -gt 40000 ] && [ "$before" -gt 0 ]; then
			now=$quietest
		elif [ -n "$free" ]; then
			now=$all
		fi
		[ "$now" = "$was" ] || echo "$now" >"$sets/cpuset.cpus"
		was=$now
	done
	for _ in {1..100}; do # child processes of the service may take a moment to end
		rmdir "$pressure" "$sets" 2>/dev/null || true
		[ -d "$pressure" ] || [ -d "$sets" ] || return 0
		sleep 0.1
	done
	echo "pressure: processes are left in $pressure or $sets" >&2
}
trap '' TERM INT # of the service's end it learns by the service
follow &
trap - TERM INT
exec "$@"
