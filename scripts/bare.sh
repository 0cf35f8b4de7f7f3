#!/usr/bin/env bash
# Do five tasks of the documents in a bare Debian: its minimal packages, the .deb of a release, and nothing else. The
# test of the pages reads their commands, runs them there, and compares what they print with the pages.
#
#   scripts/bare.sh RELEASE [PAGE...] | tee bench/bare.txt      RELEASE: a folder that scripts/release.sh made
#
# WITH=curl,… installs what a page needs besides: services/from-litellm.md asks by curl. It prints the commands with their
# exit codes, and fails if one does not do what its page says. Needs root and debootstrap. The packages come from where apt
# has its own.
set -euo pipefail
cd "$(dirname "$0")/.."
package=$(realpath "$1"/dyno_*_"$(dpkg --print-architecture)".deb)
pages=("${@:2}")
[ ${#pages[@]} -gt 0 ] || pages=(index.md tutorial.md how-to/ci-gate.md how-to/capacity.md how-to/import.md)
root=$(mktemp -d)
log=$root.log
trap 'rm -rf --one-file-system "$root" "$log"' EXIT

# shellcheck disable=SC2016 # apt replaces the fields
read -r mirror suite < <(apt-get indextargets --format '$(REPO_URI) $(CODENAME)' 'Identifier: Packages' 'Label: Debian' 'Component: main')
debootstrap --variant=minbase ${WITH:+--include="$WITH"} "$suite" "$root" "$mirror" >"$log" 2>&1 || {
	tail "$log" >&2
	exit 1
}
packages=$(chroot "$root" dpkg-query --show | wc -l)
reader=$root/reader # the test, and the pages where it looks for them
mkdir -p "$reader/internal/manual"
cp -r docs "$reader/"
cp "$package" "$root/root/"
CGO_ENABLED=0 GOFLAGS=-trimpath go test -c -o "$reader/internal/manual/test" ./internal/manual

# enter FOLDER COMMAND...: runs it there, in namespaces of its own, of which nothing is left when it ends.
enter() {
	# shellcheck disable=SC2016 # the shell in the namespaces expands it, and waits for processes without a parent
	unshare --mount --pid --net --ipc --uts --fork --kill-child bash -ec '
		ip link set lo up
		mount -t proc proc "$0/proc"
		mount -t sysfs sysfs "$0/sys"
		set +e
		chroot "$0" env -i --chdir="$1" HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 DYNO_PROGRAMS=/usr/bin "${@:2}"
		exit $?' "$root" "$@" >"$log" 2>&1 || {
		cat "$log" >&2
		exit 1
	}
}

echo "made by: scripts/bare.sh; nproc $(nproc), kernel $(uname -r)"
echo "Debian $(cat "$root/etc/debian_version") of $packages packages, and ${package##*/}"
# shellcheck disable=SC2016 # code of Markdown
install=$(grep -om1 '`apt install [^`]*`' docs/index.md | tr -d '`')
enter /root bash -c "$install"
echo "== install"
echo "   exit code 0: \$ $install"
total=1
for page in "${pages[@]}"; do
	start=$SECONDS
	enter /reader/internal/manual ./test -test.v -test.run "^TestPages$/^${page//\//$/^}$"
	count=$(grep -c '_test.go:[0-9]*: exit code' "$log")
	echo "== $page: $count commands, $((SECONDS - start)) s"
	awk '/^(===|---|PASS)/ { shown = 0 }
		sub(/^ *[a-z]+_test\.go:[0-9]+: /, "") {
			shown = /^(exit code|a file)/
			if (/^not compared/) print "   the machine disturbed the load: output and exit code are not compared with the page"
		}
		shown { print "   " $0 }' "$log"
	total=$((total + count))
done
echo "result: tasks ${#pages[@]}"
echo "result: commands $total"
