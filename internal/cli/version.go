package cli

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"dyno/internal/cli/command"
)

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Show the version, its commit, and what it was built with",
		Args:  command.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprint(a.stdout, builtFrom(buildInfo()))
			return err
		},
	}
}

// buildInfo returns what the Go command has written into this program. It may hold nothing.
func buildInfo() *debug.BuildInfo {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info
	}
	return &debug.BuildInfo{}
}

// version returns the module's version, which run.json has as dyno_version.
func version() string { return cmp.Or(buildInfo().Main.Version, "(devel)") }

// builtFrom says what dyno was built from. A build outside of the repository has no commit.
func builtFrom(info *debug.BuildInfo) string {
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	commit := cmp.Or(settings["vcs.revision"], "unknown")
	if settings["vcs.modified"] == "true" {
		commit += ", with changes"
	}
	return fmt.Sprintf("dyno %s\ncommit   %s\nbuilt by %s for %s/%s\n",
		cmp.Or(info.Main.Version, "(devel)"), commit, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
