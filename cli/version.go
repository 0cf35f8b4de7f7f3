package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"dyno/cli/arguments"
	"dyno/internal/buildinfo"
)

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Show the version, its commit, and what it was built with",
		Args:  arguments.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(a.stdout, "dyno version", buildinfo.Text())
			return err
		},
	}
}
