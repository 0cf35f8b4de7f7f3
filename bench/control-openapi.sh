#!/usr/bin/env bash
# Whether the control plane's API is what its description says (GET /v1/openapi.json). schemathesis
# makes requests of the description, such as it allows and such as break it in one place, one by one
# and several in a row, and holds each answer to it, with all of its checks: no status of 500 or more,
# statuses, media types, headers and documents as described, nothing taken that is not described, and
# nothing refused that is.
#
#   open     without principals, as on one's own machine
#   token    with principals, by the token of one who may do everything
#   nobody   with principals, without a token
#
#   bench/control-openapi.sh | tee bench/control-openapi.txt
#
# schemathesis is installed from PyPI into a virtual environment in $VENV if that is given, else in a
# folder that is removed at the end. bench/openapi has its configuration, and what it cannot know of
# the API.
#
# Settings, by environment:
#   EXAMPLES=200 SEED=1 PARTS="open token nobody" PORT=18500 CONTROL=…/bin/dyno-control VENV=…
set -euo pipefail
cd "$(dirname "$0")/.."

version=4.32.5
examples=${EXAMPLES:-200} seed=${SEED:-1} parts=${PARTS:-open token nobody} port=${PORT:-18500}
control=${CONTROL:-$PWD/bin/dyno-control}

. bench/required.sh
required python3 curl sha256sum "$control"
dir=$(mktemp -d)
running=()
trap 'kill "${running[@]}" 2>/dev/null || true; wait; rm -rf "$dir"' EXIT
venv=${VENV:-$dir/venv}
if [ ! -e "$venv/bin/schemathesis" ]; then
	python3 -m venv "$venv"
	"$venv/bin/pip" install -q "schemathesis==$version"
fi

token=$(head -c 16 /dev/urandom | sha256sum | cut -c1-32)
cat >"$dir/principals.yaml" <<YAML
principals:
  - {name: fuzz, token_sha256: $(printf %s "$token" | sha256sum | cut -c1-64), grants: [{namespace: "*", role: admin}]}
YAML

cp -r bench/openapi "$dir/" # schemathesis writes into the folder that it is started in
# part NAME HEADERS… -- FLAGS…: a server from an empty folder, and requests with these headers.
code=0
part() {
	local name=$1 headers=() i
	shift
	while [ "$1" != -- ]; do
		headers+=(--header "$1")
		shift
	done
	shift
	"$control" --listen "127.0.0.1:$port" --admin "127.0.0.1:$((port + 1))" --scratch "$@" 2>>"$dir/log" &
	running=($!)
	for ((i = 0; i < 200; i++)); do
		curl -fso /dev/null "http://127.0.0.1:$((port + 1))/readyz" && break
		sleep 0.05
	done
	# The description is read with the token, as it needs one like all else.
	curl -fs -H "Authorization: Bearer $token" "http://127.0.0.1:$port/v1/openapi.json" >"$dir/openapi.json"
	echo
	echo "== $name"
	(cd "$dir/openapi" && "$venv/bin/schemathesis" --no-color --config-file schemathesis.toml run "$dir/openapi.json" \
		--url "http://127.0.0.1:$port" --max-examples "$examples" --seed "$seed" ${headers[@]+"${headers[@]}"}) >"$dir/out" 2>&1 || code=1
	sed -e "s|$token|TOKEN|g" -e "s|$dir|DIR|g" -e "s|$PWD/||g" "$dir/out"
	kill "${running[@]}"
	wait "${running[@]}" 2>/dev/null || { echo "the server has ended with $?: $(tail -3 "$dir/log")"; code=1; }
	running=()
}

echo "made by: EXAMPLES=$examples SEED=$seed PARTS='$parts' bench/control-openapi.sh"
for one in $parts; do
	case $one in
	open) part "$one" -- ;;
	token) part "$one" "Authorization: Bearer $token" -- --principals "$dir/principals.yaml" ;;
	nobody) part "$one" -- --principals "$dir/principals.yaml" ;;
	*) echo "control-openapi: no part $one" >&2 && exit 2 ;;
	esac
done
exit $code
