// Package buildinfo says which version of a program runs, and what it was built from.
package buildinfo

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
)

// read returns what the Go command has written into this program. It may hold nothing.
func read() *debug.BuildInfo {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info
	}
	return &debug.BuildInfo{}
}

// Version returns the module's version, which run.json has as dyno_version.
func Version() string { return cmp.Or(read().Main.Version, "(devel)") }

// Text returns the version, and what this program was built from, in lines without an end of line.
func Text() string { return text(read()) }

// text says what a program was built from. A build outside of the repository has no commit.
func text(info *debug.BuildInfo) string {
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	commit := cmp.Or(settings["vcs.revision"], "unknown")
	if settings["vcs.modified"] == "true" {
		commit += ", with changes"
	}
	return fmt.Sprintf("%s\ncommit   %s\nbuilt by %s for %s/%s",
		cmp.Or(info.Main.Version, "(devel)"), commit, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
