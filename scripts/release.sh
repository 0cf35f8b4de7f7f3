#!/usr/bin/env bash
# Make a release of the commit that is checked out: for amd64 and arm64 an archive of static programs with manual
# pages and completions, a .deb, an .rpm and images of containers; the chart of fleets, a formula for Homebrew, lists of what
# is in the programs (SBOM), and checksums of all. The same commit, Go and certificates of this machine make the same bytes.
#
#   scripts/release.sh [FOLDER]      writes into FOLDER (dist), which must not exist
#
# The version is that of the commit's tag (v1.2.3), or one that Go makes of the commit. URL=https://… is where the
# files will be: the formula names it. The tools are built with versions of their own (TOOLS: a folder that has them).
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD out=$(realpath -m "${1:-dist}")
url=${URL:-https://example.invalid/dyno}
tools=${TOOLS:-$HOME/.cache/dyno-release}
nfpm=github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.45.2
sbom=github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0
helm=helm.sh/helm/v3/cmd/helm@v3.18.4
export CGO_ENABLED=0 GOFLAGS=-trimpath LC_ALL=C TZ=UTC
unset GOOS GOARCH GOAMD64 GOARM64 GOEXPERIMENT

die() {
	echo "release: $*" >&2
	exit 1
}
[ ! -e "$out" ] || die "$out exists: give another folder, or remove it"
[ -z "$(git status --porcelain)" ] || die "there are changes that are not committed: a release is of a commit"
commit=$(git rev-parse HEAD)
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
umask 022
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# tool MODULE@VERSION: its path, once it is built.
tool() {
	local folder=$tools/${1##*@} name
	name=$(basename "${1%@*}")
	[ -x "$folder/$name" ] || GOBIN=$folder GOFLAGS=-trimpath go install "$1" >&2
	echo "$folder/$name"
}
nfpm=$(tool "$nfpm") sbom=$(tool "$sbom") helm=$(tool "$helm")
go build -o "$work/image" ./scripts/image
go build -o "$work/manpages" ./scripts/manpages

# pack ARCHIVE FOLDER NAME: the folder's entry NAME as an archive. A clone's files have the modes that its user's umask leaves.
pack() {
	chmod -R u=rwX,go=rX "$2/$3"
	tar -C "$2" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --format=gnu -cf - "$3" | gzip -9n >"$1"
}

mkdir -p "$out"
for arch in amd64 arm64; do
	GOARCH=$arch go build -ldflags='-s -w' -o "$work/$arch/bin/" ./cmd/...
	version=$(go version -m "$work/$arch/bin/dyno" | awk '$1 == "mod" {print substr($3, 2)}')
	[ -n "$version" ] || die "the program has no version: build in a clone of the repository"
	folder=dyno-$version-linux-$arch
	mkdir -p "$work/$folder"
	mv "$work/$arch/bin" "$work/$folder/"
	share=$work/$folder/share
	mkdir -p "$share"/{man,bash-completion/completions,fish/vendor_completions.d,zsh/site-functions,doc/dyno}
	"$work/manpages" "$work/pages"
	mv "$work/pages/man1" "$share/man/"
	mv "$work/pages/bash/dyno" "$share/bash-completion/completions/"
	mv "$work/pages/fish/dyno.fish" "$share/fish/vendor_completions.d/"
	mv "$work/pages/zsh/_dyno" "$share/zsh/site-functions/"
	gzip -9n "$share"/man/man1/*
	cp LICENSE "$work/$folder/"
	for program in dyno dyno-bot dyno-control; do
		GOARCH=$arch "$sbom" app -json -licenses -std -noserial -main "cmd/$program" -output "$share/doc/dyno/$program.cdx.json" .
		jq --arg commit "$commit" 'del(.metadata.timestamp) | .metadata.component.properties += [{name: "org.opencontainers.image.revision", value: $commit}]' \
			"$share/doc/dyno/$program.cdx.json" >"$out/$program-$version-linux-$arch.cdx.json"
		cp "$out/$program-$version-linux-$arch.cdx.json" "$share/doc/dyno/$program.cdx.json"
	done
	find "$work/$folder" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
	pack "$out/$folder.tar.gz" "$work" "$folder"
	for kind in deb rpm; do
		(cd "$work/$folder" && VERSION=$version COMMIT=$commit ARCH=$arch "$nfpm" package --config "$root/deploy/packages/nfpm.yaml" --packager $kind --target "$out/") >"$work/log" || die "$(cat "$work/log")"
	done
	image() {
		"$work/image" -program "$work/$folder/bin/$1" -arch $arch -tag "$1:$version" -label "org.opencontainers.image.version=$version" \
			-label "org.opencontainers.image.revision=$commit" -label org.opencontainers.image.licenses=Apache-2.0 -o "$out/$1-$version-linux-$arch.image.tar" "${@:2}"
	}
	image dyno -most 60 -port 7300
	image dyno-bot -port 8000 -port 8001
	image dyno-control -port 7100
done

cp -r deploy/fleet/chart "$work/dyno-fleet"
sed -i "s/^version:.*/version: $version\nappVersion: $version\nannotations: {org.opencontainers.image.revision: \"$commit\"}/" "$work/dyno-fleet/Chart.yaml"
sed -i "s/:dev$/:$version/" "$work/dyno-fleet/values.yaml"
"$helm" lint --strict --quiet "$work/dyno-fleet"
pack "$out/dyno-fleet-$version.chart.tgz" "$work" dyno-fleet

sum() { sha256sum "$out/dyno-$version-linux-$1.tar.gz" | cut -d ' ' -f 1; }
cat >"$out/dyno.rb" <<RUBY
class Dyno < Formula
  desc "Dynamometer for network services"
  homepage "$url"
  version "$version"
  license "Apache-2.0"
  depends_on :linux

  on_arm do
    url "$url/dyno-$version-linux-arm64.tar.gz"
    sha256 "$(sum arm64)"
  end
  on_intel do
    url "$url/dyno-$version-linux-amd64.tar.gz"
    sha256 "$(sum amd64)"
  end

  def install
    bin.install Dir["bin/*"]
    man1.install Dir["share/man/man1/*"]
    bash_completion.install "share/bash-completion/completions/dyno"
    fish_completion.install "share/fish/vendor_completions.d/dyno.fish"
    zsh_completion.install "share/zsh/site-functions/_dyno"
  end

  test do
    output = shell_output("#{bin}/dyno version")
    assert_match "v#{version}", output
    assert_match "$commit", output
  end
end
RUBY

(cd "$out" && sha256sum -- * >SHA256SUMS)
(cd "$out" && stat -c '%11s  %n' -- *)
