#!/usr/bin/env bash
# How much narrower are a duet's intervals than those of ordinary rounds, in the same time?
# Six rounds of three trials (base, control, variant) take as long as eight rounds of two
# pairs (base with control, base with variant) and the two trials with an idle peer: 18
# trials' time. They take turns, so that both meet the same machine.
#
#   bench/duet.sh | tee bench/duet.txt
#
# Settings, by environment: TURNS=3, SEED=1 (of the first turn), LOCK=FILE (held for each
# turn, where others measure on the same machine). A file of earlier turns in EARLIER is
# summed up with them. Needs jq and two CPUs.
set -euo pipefail
cd "$(dirname "$0")/.."
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
go build -trimpath -o "$dir/dyno" ./cmd/dyno

# both measures one turn, either way first in turn.
both() {
	local ways=(rounds duet) rounds way code
	[ $(($1 % 2)) -eq 0 ] || ways=(duet rounds)
	for way in "${ways[@]}"; do
		code=0 rounds=(--set rounds=6)
		[ "$way" = rounds ] || rounds=(--set rounds=8 --set duet=true)
		"$dir/dyno" run -q --set "seed=$1" "${rounds[@]}" -o "$dir/$way" bench/duet.yaml >/dev/null 2>"$dir/err" || code=$?
		# 4: what was asked for is not identified, such as by a duet that is refused.
		[ "$code" -eq 0 ] || [ "$code" -eq 4 ] || { cat "$dir/err" >&2; return "$code"; }
		jq -r --arg way "$way" --arg turn "$1" '
			def seconds: sub("\\.[0-9]+"; "") | sub("[+-][0-9:]+$"; "Z") | fromdateiso8601;
			((.finished_at | seconds) - (.started_at | seconds)) as $took
			| (.comparisons[] | select(.metric == "throughput" or .metric == "target.cpu_per_request")) as $c
			| (if $c.variant == "slow" then (if $c.metric == "throughput" then 1 / 1.05 else 1.05 end) else 1 end) as $truth
			| [$turn, $way, $c.metric, (if $c.variant == "slow" then "planted" else "a/a" end),
				($c.ratio.estimate * 1e4 | round / 1e4), ($c.ratio.low * 1e4 | round / 1e4), ($c.ratio.high * 1e4 | round / 1e4),
				(if $c.ratio.low <= $truth and $truth <= $c.ratio.high then "holds" else "misses" end), $c.verdict, $took] | @tsv' "$dir/$way/run.json"
		rm -rf "${dir:?}/$way"
	done
}
export -f both
export dir

{
	[ -z "${EARLIER:-}" ] || grep -P '^\d+\t' "$EARLIER"
	for turn in $(seq "${SEED:-1}" $((${SEED:-1} + ${TURNS:-3} - 1))); do
		if [ -n "${LOCK:-}" ]; then flock "$LOCK" bash -euo pipefail -c "both $turn"; else both "$turn"; fi
	done
} >"$dir/turns"
echo "nproc $(nproc), kernel $(uname -r)"
echo "turn	way	metric	pair	ratio	low	high	truth	verdict	seconds"
cat "$dir/turns"
echo
jq -Rrs '
	def geometric: map(log) | add / length | exp;
	[split("\n")[] | select(. != "") | split("\t") | {turn: .[0], way: .[1], metric: .[2], pair: .[3],
		width: ((.[6] | tonumber | log) - (.[5] | tonumber | log)), holds: (.[7] == "holds"), verdict: .[8], seconds: (.[9] | tonumber)}]
	| (group_by(.way)[] | "\(.[0].way): \(map({turn, seconds}) | unique | map(.seconds) | add) s for \(map(.turn) | unique | length) turns"),
	  (group_by([.metric, .pair])[] | "\(.[0].metric), \(.[0].pair): "
		+ (group_by(.way) | map("\(.[0].way) width \(map(.width) | geometric * 1e4 | round / 100) %, truth within \(map(select(.holds)) | length) of \(length), refused \(map(select(.verdict == "invalid")) | length)") | join("; "))
		+ "; duet/rounds \((map(select(.way == "duet").width) | geometric) / (map(select(.way == "rounds").width) | geometric) * 100 | round / 100)")' "$dir/turns"
