#!/usr/bin/env bash
# Build the documents as a site with MkDocs, whose packages are pinned in docs/requirements.txt and are installed once
# into a folder of the user's cache. Fails if a link leads nowhere, if a page refers to another host for anything but a
# link, if a second build differs by a byte, or if a page has more than 1,500 words. Reference may be longer, and so
# may documents for developers and published reports. Prints the number of pages and words.
#
#   scripts/site.sh [OUT]       by default bin/site; any web server can serve it
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-bin/site}
skip() {
	echo "site: skipped: $1"
	exit 0
}
command -v python3 >/dev/null || skip "there is no python3"
python3 -m pip --version >/dev/null 2>&1 || skip "there is no pip (apt-get install python3-pip)"

sum=$({ python3 --version && cat docs/requirements.txt; } | sha256sum | cut -c1-16)
tools=${XDG_CACHE_HOME:-$HOME/.cache}/dyno-site-$sum
if [ ! -e "$tools/complete" ]; then
	rm -rf "$tools"
	python3 -m venv --without-pip "$tools"
	python3 -m pip --python "$tools/bin/python" install -q --disable-pip-version-check --no-deps -r docs/requirements.txt
	touch "$tools/complete"
fi

# The date of the last commit stands for that of the build.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH NO_MKDOCS_2_WARNING=1
second=$(mktemp -d)
trap 'rm -rf "$second"' EXIT
for dir in "$out" "$second"; do
	"$tools/bin/python" -m mkdocs build -q -d "$(realpath -m "$dir")"
done
diff -r "$out" "$second"

# What a browser fetches by itself has no host: it is part of the site.
if grep -rnoE --include='*.html' '<(script|img|iframe|source|link)\b[^>]*\b(src|href)="?(https?:)?//[^"> ]*' "$out" ||
	grep -rnoE --include='*.css' '(@import|url\() *["'\'']?(https?:)?//[^)]*' "$out"; then
	echo "site: these refer to another host"
	exit 1
fi

pages=0 words=0 long=0
while IFS= read -r -d '' page; do
	n=$(sed 's/<!--[^>]*-->//g' "$page" | grep -oE '[[:alnum:]][^[:space:]|]*' | wc -l)
	pages=$((pages + 1)) words=$((words + n))
	case $page in
	docs/reference/* | docs/development/* | docs/reports/* | *-configuration.md) ;;
	*) [ "$n" -le 1500 ] || {
		echo "site: $page has $n words; 1,500 are the most"
		long=1
	} ;;
	esac
done < <(find docs -name '*.md' -print0 | sort -z)
echo "site: $pages pages, $words words, in $out"
exit $long
