package cli

import (
	"github.com/spf13/cobra"

	"dyno/cli/arguments"
	"dyno/services/control/ctl"
)

// ctlCommand is the control plane's command line for its users.
func (a *app) ctlCommand() *cobra.Command {
	cmd := ctl.Command()
	for _, c := range append(cmd.Commands(), cmd) {
		if c.RunE == nil {
			arguments.Group(c)
		}
	}
	return cmd
}
