#!/usr/bin/env bash
# Give the main module a path with a host, so that others can install it: go install PATH/cmd/dyno@VERSION. It changes
# both go.mod, all imports, and what else names packages. Commit that in the repository at PATH, and tag it.
#
#   scripts/publish-as.sh PATH            for example: example.org/tools/dyno
#   scripts/publish-as.sh --try PATH      in a copy, which is then installed through a proxy of files
set -euo pipefail
cd "$(dirname "$0")/.."

# rename PATH: in the current folder, a clone.
rename() {
	local old rooms
	old=$(GOWORK=off go list -m)
	rooms=$(git ls-files '*.go' | grep / | cut -d / -f 1 | sort -u | paste -sd '|')
	go mod edit -module "$1"
	go -C experiments mod edit -module "$1/experiments" -droprequire "$old" -dropreplace "$old" -require "$1@v0.0.0" -replace "$1=../"
	git grep -lzIE "(^|[\"' =])$old/($rooms)\b" -- '*.go' '*.proto' '*.yml' | xargs -0 sed -Ei "s#(^|[\"' =])$old/($rooms)\b#\1$1/\2#g"
	git ls-files -z '*.go' | xargs -0 gofmt -w # the order of imports
	go build work
}

# try PATH: installs a version of a copy as its users would.
try() {
	local version proxy
	version=v0.0.1-$(date +%s) # a version that no cache has
	dir=$(mktemp -d)
	trap 'chmod -R u+w "$dir" && rm -rf "$dir"' EXIT
	git clone -q . "$dir/clone"
	cd "$dir/clone"
	rename "$1"
	git -c user.name=dyno -c user.email=dyno@example.invalid commit -qam "Publish as $1"
	proxy=$dir/proxy/$1/@v
	mkdir -p "$proxy" "$dir/empty"
	git archive --format=zip --prefix="$1@$version/" -o "$proxy/$version.zip" HEAD . ':!experiments' # a module has one go.mod
	cp go.mod "$proxy/$version.mod"
	echo "{\"Version\": \"$version\", \"Time\": \"$(git log -1 --format=%cI)\"}" >"$proxy/$version.info"
	echo "$version" >"$proxy/list"
	cd "$dir/empty"
	GOPROXY="file://$dir/proxy,$(go env GOPROXY)" GONOSUMDB="$1" GOFLAGS=-modcacherw GOBIN=$dir/bin go install "$1/cmd/dyno@$version"
	"$dir/bin/dyno" version
}

case $#:${1-} in
1:[!-]*) rename "$1" ;;
2:--try) try "$2" ;;
*)
	sed -n '/^#   /s/^#   //p' "$0" >&2
	exit 2
	;;
esac
