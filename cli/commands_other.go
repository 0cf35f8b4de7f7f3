//go:build !linux

package cli

import (
	"runtime"

	"github.com/spf13/cobra"

	"dyno/internal/exit"
)

// linuxCommands returns commands that say what is missing here.
func (a *app) linuxCommands() []*cobra.Command {
	var all []*cobra.Command
	for _, c := range [][2]string{
		{"agent", "Carry parts of loads for dyno on another machine, or their target"},
		{"doctor", "Say what can be measured on this machine, and how well"},
		{"serve", "Run a service to measure"},
	} {
		all = append(all, &cobra.Command{
			Use: c[0], Short: c[1] + " (needs Linux)", DisableFlagParsing: true,
			RunE: func(*cobra.Command, []string) error {
				return exit.Misused("run it on Linux, for example in a container", "dyno %s needs Linux, and this is %s: here dyno has quick loads, runs of servers that run already, and all that reads results", c[0], runtime.GOOS)
			},
		})
	}
	return all
}
