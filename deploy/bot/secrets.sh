#!/usr/bin/env bash
# Make what compose.yaml needs in a folder: the secret that signs tokens, the admin listener's
# token, PostgreSQL's password, an API key, and the configuration that knows its hash. What is
# there stays.
#
#   deploy/bot/secrets.sh [FOLDER]      (deploy/bot/secrets)
#
# The API key is printed, and kept in no file.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
dir=${1:-$here/secrets}
if [ -e "$dir" ]; then
	echo "secrets: $dir is there already" >&2
	exit 1
fi
mkdir -m 711 "$dir"
random() { od -An -vN "$1" -tx1 /dev/urandom | tr -d ' \n'; }
password=$(random 24) key=$(random 24)
printf %s "$(random 32)" >"$dir/token.secret"
printf %s "$(random 24)" >"$dir/admin.secret"
printf %s "$password" >"$dir/postgres.password"
printf 'host=172.30.77.12 user=postgres password=%s dbname=postgres sslmode=disable' "$password" >"$dir/postgres.secret"
hash=$(printf %s "$key" | sha256sum | cut -d ' ' -f 1)
sed "s/\"0\\{64\\}\".*/\"$hash\"/" "$here/bot.yaml" >"$dir/bot.yaml"
# The programs run as other users. Nobody else finds the names in the folder. The gateway reads no secrets that every user
# may read: its group has them.
chmod 644 "$dir"/*
chmod 640 "$dir"/*.secret
chgrp 65532 "$dir"/*.secret 2>/dev/null || echo "secrets: you are not root: sudo chgrp 65532 $dir/*.secret" >&2
echo "API key: $key"
