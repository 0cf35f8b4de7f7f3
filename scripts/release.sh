#!/usr/bin/env bash
# Make a release of the commit that is checked out: for amd64 and arm64 an archive of static programs with manual
# pages and completions, a .deb, an .rpm and images of containers; dyno alone for macOS and Windows; the chart of fleets, a formula
# for Homebrew, lists of what is in the programs (SBOM), and checksums of all. The same commit, Go and certificates of this machine
# make the same bytes.
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
export CGO_ENABLED=0 GOFLAGS=-trimpath GOWORK=off LC_ALL=C TZ=UTC
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

# settle FOLDER: give its files the commit's time, and modes that do not depend on the umask with which they were made.
settle() {
	chmod -R u=rwX,go=rX "$work/$1"
	find "$work/$1" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
}

# pack ARCHIVE FOLDER: the settled folder as an archive.
pack() { tar -C "$work" --sort=name --owner=0 --group=0 --numeric-owner --format=gnu -cf - "$2" | gzip -9n >"$out/$1"; }

# parts PROGRAM FOLDER: list what is in the program for GOOS and GOARCH, in the folder and next to it.
parts() {
	local list=$work/$2/share/doc/dyno/$1.cdx.json
	"$sbom" app -json -licenses -std -noserial -main "cmd/$1" -output "$work/parts.json" .
	jq --arg commit "$commit" 'del(.metadata.timestamp) | .metadata.component.properties += [{name: "org.opencontainers.image.revision", value: $commit}]' \
		"$work/parts.json" >"$list"
	cp "$list" "$out/${2/#dyno/$1}.cdx.json"
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
		GOARCH=$arch parts $program "$folder"
	done
	settle "$folder"
	pack "$folder.tar.gz" "$folder"
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

# What dyno does on other systems: docs/reference/platforms.md.
for system in darwin-amd64 darwin-arm64 windows-amd64; do
	export GOOS=${system%-*} GOARCH=${system#*-}
	folder=dyno-$version-$system
	mkdir -p "$work/$folder/share/doc/dyno"
	go build -ldflags='-s -w' -o "$work/$folder/bin/" ./cmd/dyno
	cp LICENSE "$work/$folder/"
	[ "$GOOS" = windows ] || cp -r "$work/dyno-$version-linux-amd64/share"/{man,bash-completion,fish,zsh} "$work/$folder/share/"
	parts dyno "$folder"
	settle "$folder"
	if [ "$GOOS" = windows ]; then
		(cd "$work" && find "$folder" | sort | zip -9 -X -q -@ "$out/$folder.zip")
	else
		pack "$folder.tar.gz" "$folder"
	fi
done
unset GOOS GOARCH

cp -r deploy/fleet/chart "$work/dyno-fleet"
sed -i "s/^version:.*/version: $version\nappVersion: $version\nannotations: {org.opencontainers.image.revision: \"$commit\"}/" "$work/dyno-fleet/Chart.yaml"
sed -i "s/:dev$/:$version/" "$work/dyno-fleet/values.yaml"
"$helm" lint --strict --quiet "$work/dyno-fleet"
settle dyno-fleet
pack "dyno-fleet-$version.chart.tgz" dyno-fleet

# archive SYSTEM-ARCH: where the formula finds it.
archive() {
	printf 'url "%s"\n      sha256 "%s"' "$url/dyno-$version-$1.tar.gz" "$(sha256sum "$out/dyno-$version-$1.tar.gz" | cut -d ' ' -f 1)"
}
cat >"$out/dyno.rb" <<RUBY
class Dyno < Formula
  desc "Dynamometer for network services"
  homepage "$url"
  version "$version"
  license "Apache-2.0"

  on_macos do
    on_arm do
      $(archive darwin-arm64)
    end
    on_intel do
      $(archive darwin-amd64)
    end
  end
  on_linux do
    on_arm do
      $(archive linux-arm64)
    end
    on_intel do
      $(archive linux-amd64)
    end
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
