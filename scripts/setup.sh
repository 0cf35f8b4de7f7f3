#!/usr/bin/env bash
# Install the Debian packages that tests and benchmarks use: only those missing,
# only as root or with sudo that asks nothing. Otherwise say what will be
# skipped, and succeed: every test that needs one of them skips without it.
set -euo pipefail

# package  command (or a file's path)  what uses it
needs='
gcc              gcc          the race detector in all tests (they run without it)
libc6-dev        -            the race detector in all tests (they run without it)
ca-certificates  /etc/ssl/certs/ca-certificates.crt Go modules, npm and pip
curl             curl         tests of the HTTP services with a real client
jq               jq           bench/*.sh, tests of the templates for pipelines
zip              zip          scripts/release.sh
shellcheck       shellcheck   tests of the templates for pipelines
util-linux       taskset      placement on CPUs: bench/*.sh
wrk              wrk          bench/http1-vs-wrk.sh
nginx-light      nginx        bench/http1-vs-wrk.sh, bench/http2-vs-h2load.sh, bench/handshakes.sh, tests against a real HTTP server
libnginx-mod-nchan /usr/lib/nginx/modules/ngx_nchan_module.so bench/events-vs-nchan.sh
haproxy          haproxy      bench/relay-vs-haproxy.sh, PROXY protocol tests, tests of HTTP/2 with a real server
redis-server     redis-server tests of the event hub and of the bot gateway
postgresql       /usr/lib/postgresql tests of the bot gateway with a real database
redis-tools      redis-cli    tests of what observers scrape
apache2-utils    ab           bench/http1-vs-wrk.sh, one row
nghttp2-client   h2load       bench/http1-vs-wrk.sh, one row, bench/http2-vs-h2load.sh, bench/handshakes.sh
nghttp2-server   nghttpd      tests of HTTP/2 with a real server
openssl          openssl      bench/http2-vs-h2load.sh, bench/handshakes.sh, tests of TLS with another implementation
default-jdk-headless javac    tests of HTTP/2 with Jetty
libjetty9-java   /usr/share/java/jetty9-http2-server.jar the same
linux-perf       perf         tests that hold counts of system calls against perf stat
tmux             tmux         tests of what a terminal shows
iproute2         ip           tests in network namespaces of their own, commands of pages among them; bench/fleet-*.sh
bind9-dnsutils   dig          tests of the control plane with a real resolver
dnsmasq-base     dnsmasq      the same, with one that forwards
prometheus       prometheus   tests of live figures, dashboards and alert rules with a real receiver
influxdb         influxd      tests of live figures with a real receiver of line protocol
nodejs           node         tests of the event hub with the package eventsource, tests of HTTP/2 with its server
npm              npm          the same, of the bot gateway with the package openai
python3-pip      pip3         tests of the event hub with the package httpx-sse, of the bot gateway with openai, scripts/site.sh
flatbuffers-compiler flatc   code for messages in FlatBuffers, scripts/flatbuffers.sh
clang-14         clang-14     eBPF programs, scripts/ebpf.sh
llvm-14          llvm-strip-14 the same
libbpf-dev       /usr/include/bpf/bpf_helpers.h the same
debootstrap      debootstrap  scripts/bare.sh
qemu-user-static qemu-aarch64-static scripts/platforms.sh
chromium         chromium     scripts/browser.sh, the HTML report in a browser; tests of the event hub with its EventSource
'

# What observes the kernel needs its tracing files, which not every machine has mounted.
if [ "$(id -u)" -eq 0 ] && [ -d /sys/kernel/tracing ] && [ ! -e /sys/kernel/tracing/events ]; then
	mount -t tracefs tracefs /sys/kernel/tracing 2>/dev/null || echo "setup: tracefs cannot be mounted: tests of accepts and perf events are skipped or fail"
fi

missing=() uses=()
while read -r package command use; do
	[ -n "$package" ] || continue
	if [ "$command" = - ]; then
		[ -e /usr/include/stdlib.h ] && continue
	elif [[ "$command" == /* ]]; then
		[ -e "$command" ] && continue
	elif PATH="$PATH:/usr/sbin:/sbin" command -v "$command" >/dev/null; then
		continue
	fi
	missing+=("$package")
	uses+=("$package: $use")
done <<<"$needs"
[ ${#missing[@]} -gt 0 ] || exit 0

skip() {
	echo "setup: not installed, because $1. Skipped for want of it:"
	printf '  %s\n' "${uses[@]}"
	exit 0
}
command -v apt-get >/dev/null || skip "this is not Debian"
sudo=()
if [ "$(id -u)" -ne 0 ]; then
	command -v sudo >/dev/null && sudo -n true 2>/dev/null || skip "this is not root and sudo would ask"
	sudo=(sudo -n)
fi

# Debian starts a service when it installs one. A policy of 101 forbids that,
# and touches nothing that already runs.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
	printf '#!/bin/sh\nexit 101\n' | "${sudo[@]}" tee "$policy" >/dev/null
	"${sudo[@]}" chmod 755 "$policy"
	trap '"${sudo[@]}" rm -f "$policy"' EXIT
fi

log=$(mktemp)
echo "setup: installing ${missing[*]}"
apt() { "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=120 "$@" >>"$log" 2>&1; }
if ! { apt update && apt install --no-install-recommends "${missing[@]}"; }; then
	tail -n 5 "$log"
	rm -f "$log"
	skip "apt-get failed; its error is above"
fi
rm -f "$log"
