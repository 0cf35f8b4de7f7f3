#!/usr/bin/env bash
# Start the programs of a release's images without a container engine: each image is unpacked, and its program runs in that
# folder as the image's user. qemu emulates the CPUs that this machine is not. dyno also loads a server for a second.
#
#   scripts/platforms.sh RELEASE | tee bench/platforms.txt      RELEASE: a folder that scripts/release.sh made
#
# Needs root, jq, and qemu-user-static for other CPUs. Fails if a program does not start, or not in the release's version.
set -euo pipefail
cd "$1"
dir=$(mktemp -d)
trap 'rm -rf --one-file-system "$dir"' EXIT

# start COMMAND...: in namespaces of its own, of which nothing is left when it ends.
start() {
	# shellcheck disable=SC2016 # the shell in the namespaces expands it
	unshare --mount --pid --net --fork --kill-child bash -ec '
		ip link set lo up
		mount -t proc proc "$0/proc"
		run() { chroot --userspec="$user" "$0" $emulator "$program" "$@"; }
		"$@"
		exit $?' "$root" "$@"
}

# load: a quick load of a server of the same image.
load() {
	start eval '
		run serve echo --http 127.0.0.1:8080 >/dev/null 2>&1 &
		until (: <>/dev/tcp/127.0.0.1/8080) 2>/dev/null; do sleep 0.1; done
		run -q -z 1s -c 4 http://127.0.0.1:8080/'
}

echo "made by: scripts/platforms.sh; kernel $(uname -r), $(uname -m)"
for image in *.image.tar; do
	unpacked=$dir/unpacked root=$dir/root emulator=
	rm -rf --one-file-system "$unpacked" "$root"
	mkdir -p "$unpacked" "$root/proc"
	tar -xf "$image" -C "$unpacked"
	for layer in $(jq -r '.[0].Layers[]' "$unpacked/manifest.json"); do tar -xf "$unpacked/$layer" -C "$root"; done
	config=$unpacked/$(jq -r '.[0].Config' "$unpacked/manifest.json")
	user=$(jq -r .config.User "$config") program=$(jq -r '.config.Entrypoint[0]' "$config") arch=$(jq -r .architecture "$config")
	if [ "$arch" != "$(dpkg --print-architecture)" ]; then
		emulator=/qemu
		cp "$(command -v "qemu-${arch/arm64/aarch64}-static")" "$root/qemu"
	fi
	export user program emulator
	echo "== $arch${program}, user $user, $(stat -c %s "$image") bytes${emulator:+, emulated}"
	start run --version | tee "$dir/version"
	jq -r '.config.Labels | "v" + .["org.opencontainers.image.version"], "commit   " + .["org.opencontainers.image.revision"]' "$config" |
		cmp - <(head -2 "$dir/version" | sed "s/^${program#/} version //")
	[ "$program" != /dyno ] || load | sed -n '1,/^  connections/p'
done
