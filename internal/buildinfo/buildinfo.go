// Package buildinfo says which version of a program runs, and what it was built from.
package buildinfo

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
)

// read returns what the Go command has written into this program. It may hold nothing.
func read() *debug.BuildInfo {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info
	}
	return &debug.BuildInfo{}
}

// Version returns the module's version.
func Version() string { return cmp.Or(read().Main.Version, "(devel)") }

// Build returns the version, and which build of it this program is. Runs have it as dyno_version. Builds whose programs
// are the same have the same one.
func Build() string {
	head, n := make([]byte, 64<<10), 0
	if program, err := os.Executable(); err == nil {
		if f, err := os.Open(program); err == nil {
			n, _ = io.ReadFull(f, head) // a part will do
			_ = f.Close()               // it was read only
		}
	}
	return strings.TrimSpace(Version() + " " + buildOf(head[:n]))
}

// buildOf returns which build a program is that begins so: "build " and the end of the ID that Go's
// linker has written there, a hash of the program's content; or nothing. It is in a note of ELF, and a
// text in other formats.
func buildOf(head []byte) string {
	id := regexp.MustCompile(`(?:Go\x00\x00| Go build ID: ")[\w/-]*/([\w-]{12})[\w-]*`).FindSubmatch(head)
	if id == nil {
		return ""
	}
	return "build " + string(id[1])
}

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
