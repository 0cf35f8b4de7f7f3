#!/usr/bin/env bash
# Make the keys of a fleet in a folder, and FOLDER/secrets.yaml with the four Secrets that the chart needs.
# A reader of the folder controls the fleet. The coordinators' certificate holds for 30 days: another call
# with the same folder makes another one, and keeps everything else.
#
#   deploy/fleet/secrets.sh FOLDER [NAMESPACE]      (dyno); needs dyno on PATH, and openssl
#   kubectl -n NAMESPACE apply -f FOLDER/secrets.yaml
set -euo pipefail
dir=${1:?a folder} namespace=${2:-dyno}
umask 077
mkdir -p "$dir"
cd "$dir"
rm -f fleet/member.pem
# The authority makes what is missing when it starts.
dyno fleet authority --listen 127.0.0.1:0 --folder fleet --token-file token >/dev/null 2>authority.log &
authority=$!
until [ -s token ] && [ -s fleet/member.pem ]; do
	kill -0 $authority 2>/dev/null || {
		cat authority.log >&2
		exit 1
	}
	sleep 0.1
done
kill $authority
wait $authority 2>/dev/null || true
rm authority.log

random() { od -An -vN 24 -tx1 /dev/urandom | tr -d ' \n'; }
[ -e control.token ] || random >control.token
[ -e admin.token ] || random >admin.token
[ -e control.crt ] || openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 365 -subj /CN=dyno-control \
	-addext "subjectAltName=DNS:dyno-control,DNS:dyno-control.$namespace,DNS:dyno-control.$namespace.svc" -keyout control.key -out control.crt 2>/dev/null
cat >principals.yaml <<Y
principals:
  - name: fleet
    token_sha256: $(sha256sum <control.token | cut -d ' ' -f 1)
    grants: [{namespace: fleet, role: editor}]
Y
echo "join: $(cat token)@dyno-authority:7200" >agent.yaml

# secret NAME KEY=FILE...
secret() {
	local entry
	printf -- '---\napiVersion: v1\nkind: Secret\nmetadata: {name: %s}\ndata:\n' "$1"
	for entry in "${@:2}"; do
		printf '  %s: %s\n' "${entry%%=*}" "$(base64 <"${entry#*=}" | tr -d '\n')"
	done
}
{
	secret dyno-authority authority.pem=fleet/authority.pem token=token
	secret dyno-control tls.crt=control.crt tls.key=control.key principals.yaml=principals.yaml admin.token=admin.token
	secret dyno-agent agent.yaml=agent.yaml control.token=control.token control.crt=control.crt
	secret dyno-coordinator member.pem=fleet/member.pem control.token=control.token control.crt=control.crt
} >secrets.yaml
