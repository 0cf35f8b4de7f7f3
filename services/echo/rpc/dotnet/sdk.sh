# Sourced after recipe.sh by the build scripts of .NET programs: finds the SDK, and builds a project.
#
# The SDK is the one in the folder DYNO_DOTNET_ROOT, or the one on PATH, or what the archive
# DYNO_DOTNET_ARCHIVE (.tar.xz) unpacks to: dotnet/ is the SDK, and packages/ holds packages
# in the layout of NuGet's own folder, which need not be fetched then.
# DYNO_DOTNET_PACKAGES is another such folder of packages.

# unpack ARCHIVE: unpacks an SDK, once.
unpack() {
	local archive=$1 folder
	[ -r "$archive" ] || missing "DYNO_DOTNET_ARCHIVE: $archive cannot be read"
	folder=$cache/dotnet-sdk/$(basename "$archive" .tar.xz)
	if [ ! -e "$folder/dotnet/dotnet" ]; then
		rm -rf "$folder.new"
		mkdir -p "$folder.new"
		if [ -e "$(dirname "$archive")/SHA256SUMS" ]; then
			(cd "$(dirname "$archive")" && grep -F "  $(basename "$archive")" SHA256SUMS | sha256sum --check --quiet) ||
				missing "DYNO_DOTNET_ARCHIVE: $archive is not what SHA256SUMS next to it says"
		fi
		tar -xJf "$archive" -C "$folder.new" || missing "DYNO_DOTNET_ARCHIVE: $archive cannot be unpacked"
		mv -T "$folder.new" "$folder"
	fi
	root=$folder/dotnet
}

# find_sdk: sets root, version and packages, or leaves the program out.
find_sdk() {
	if [ -n "${DYNO_DOTNET_ROOT:-}" ]; then
		root=$DYNO_DOTNET_ROOT
		[ -x "$root/dotnet" ] || missing "DYNO_DOTNET_ROOT: there is no $root/dotnet"
	elif command -v dotnet >/dev/null && dotnet --list-sdks | grep -q '^10\.'; then
		root=$(dirname "$(readlink -f "$(command -v dotnet)")")
	elif [ -n "${DYNO_DOTNET_ARCHIVE:-}" ]; then
		(exec 8>"$cache/dotnet-sdk.lock" && flock 8 && unpack "$DYNO_DOTNET_ARCHIVE") || exit
		unpack "$DYNO_DOTNET_ARCHIVE"
	else
		missing "there is no .NET 10 SDK: not on PATH, and neither DYNO_DOTNET_ROOT nor DYNO_DOTNET_ARCHIVE is set"
	fi
	root=$(cd "$root" && pwd)
	version=$("$root/dotnet" --list-sdks | sed -n 's/^\(10\.[^ ]*\) .*/\1/p' | tail -n 1)
	[ -n "$version" ] || missing "$root holds no .NET 10 SDK"
	packages=${DYNO_DOTNET_PACKAGES:-$(dirname "$root")/packages}
}

# publish PROJECT OPTION…: builds the project of a folder into $out/app, with the build's options.
publish() {
	local project=$1 options needs restored
	shift
	export DOTNET_ROOT=$root DOTNET_CLI_TELEMETRY_OPTOUT=1 DOTNET_NOLOGO=1 DOTNET_SYSTEM_GLOBALIZATION_INVARIANT=1
	export DOTNET_CLI_HOME=$out/home DOTNET_SKIP_FIRST_TIME_EXPERIENCE=1 MSBUILDDISABLENODEREUSE=1
	options=("$project" --artifacts-path "$out/artifacts" -p:NuGetAudit=false --disable-build-servers "$@")

	# Packages that are at hand come first: with all of them there, no source is asked.
	needs=$(sed -n 's/.*PackageReference Include="\([^"]*\)".*/\1/p' "$project"/*.csproj | head -n 1 | tr '[:upper:]' '[:lower:]')
	restored=
	if [ -d "$packages/$needs" ]; then
		echo '<configuration><packageSources><clear/></packageSources></configuration>' >"$out/offline.config"
		export NUGET_FALLBACK_PACKAGES=$packages
		if "$root/dotnet" restore "${options[@]}" -p:RestoreConfigFile="$out/offline.config" >>"$out/build.log" 2>&1 9>&-; then
			restored=yes
		fi
	fi
	if [ -z "$restored" ]; then
		# To find out that NuGet is not reached takes seconds, and experiments ask one after the other.
		if [ -n "$(find "$out" -name unreached -mmin -60)" ]; then
			missing "NuGet was not reached less than an hour ago, and no folder of packages has all of them (without the file unreached in the folder of the program it is asked again)"
		fi
		# 120 s: without an answer from NuGet a restore tries again and again.
		if ! timeout 120 "$root/dotnet" restore "${options[@]}" >"$out/restore.log" 2>&1 9>&-; then
			cat "$out/restore.log" >>"$out/build.log"
			if grep -q -e NU1301 -e NU1100 -e NU1101 -e NU1102 "$out/restore.log" || ! grep -q error "$out/restore.log"; then
				touch "$out/unreached"
				missing "NuGet is not reached, and no folder of packages has all of them"
			fi
			tail -n 30 "$out/restore.log" >&2
			echo "$name: dotnet restore failed" >&2
			exit 1
		fi
	fi
	rm -rf "$out/app"
	step "$root/dotnet" publish "${options[@]}" --no-restore -c Release -o "$out/app"
}
