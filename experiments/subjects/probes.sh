#!/usr/bin/env bash
# Time functions of a running Go program by uprobes, without a change to it:
#
#   experiments/subjects/probes.sh PROGRAM FILE NAME=FUNCTION…
#
# FILE gets two lines for each name every 100 calls: how many calls have ended, and their seconds, since the start. With
# "NAME=-" nothing is probed, and both stay 0. It needs root, tracefs, perl and binutils, on amd64.
#
# A call begins at the function's first instruction and ends at one of its returns. Return probes (uretprobe) would
# replace return addresses on the stack, which Go's stacks do not survive. Debian's bpftrace sets no probes within
# functions, so the kernel's own tracing has them. A goroutine may change threads during a call, so calls are distinguished by
# goroutine: register r14 holds it.
set -euo pipefail
program=$(readlink -f "$(command -v "$1")") file=$2
shift 2
group=dyno_$$ tracing=/sys/kernel/tracing
instance=$tracing/instances/$group
finish() {
	trap - EXIT
	[ -z "${reader:-}" ] || kill "$reader" 2>/dev/null || true
	if [ -d "$instance" ]; then
		echo 0 >"$instance/events/$group/enable" || true
		rmdir "$instance" || true
	fi
	sed -n "s|^p:\($group/[^ ]*\) .*|-:\1|p" $tracing/uprobe_events | sort -u | while read -r one; do echo "$one" >>$tracing/uprobe_events; done
	exit 0
}
trap finish EXIT TERM INT
# Where the program's text is, in the file and in memory.
read -r offset address < <(readelf -lW "$program" | awk '$1 == "LOAD" && / R E / { print $2, $3 }')
: >"$file"
probed=
for one in "$@"; do
	name=${one%%=*} function=${one#*=}
	printf '%s_total 0\n%s_seconds_total 0\n' "$name" "$name" >>"$file"
	[ "$function" != - ] || continue
	read -r from length < <(nm -S "$program" | awk -v f="$function" '$4 == f { print "0x" $1, "0x" $2 }') || {
		echo "probes: $program has no function $function" >&2
		exit 1
	}
	{
		printf 'p:%s/%s_begin %s:0x%x goroutine=%%r14:u64\n' "$group" "$name" "$program" $((from - address + offset))
		for at in $(objdump -d --no-show-raw-insn --start-address="$from" --stop-address="$((from + length))" "$program" | awk '$2 == "ret" { sub(":", "", $1); print "0x" $1 }'); do
			printf 'p:%s/%s_end %s:0x%x goroutine=%%r14:u64\n' "$group" "$name" "$program" $((at - address + offset))
		done
	} | while read -r probe; do echo "$probe" >>$tracing/uprobe_events; done
	probed=1
done
[ -z "$probed" ] || {
	mkdir "$instance"
	echo 1 >"$instance/events/$group/enable"
	perl -ne '
		BEGIN { ($file, @names) = splice @ARGV }
		next unless /([0-9.]+): (\w+)_(begin|end): .* goroutine=(\d+)/;
		if ($3 eq "begin") { $began{"$2 $4"} = $1; next }
		my $at = delete $began{"$2 $4"} // next;
		$calls{$2}++; $seconds{$2} += $1 - $at;
		next if ++$all % 100;
		open my $out, ">", "$file.new" or die "$file.new: $!";
		printf $out "%s_total %d\n%s_seconds_total %.9f\n", $_, $calls{$_} // 0, $_, $seconds{$_} // 0 for @names;
		close $out; rename "$file.new", $file;
	' "$file" "${@%%=*}" <"$instance/trace_pipe" &
	reader=$!
}
echo ready
sleep infinity &
wait $!
