package cli

import (
	"errors"

	"github.com/spf13/cobra"

	"dyno/cli/command"
	"dyno/services/control/ctl"
)

// ctlCommand is the control plane's command line for its users.
func (a *app) ctlCommand() *cobra.Command {
	cmd := ctl.Command()
	for _, c := range append(cmd.Commands(), cmd) {
		if c.RunE == nil {
			command.Group(c)
		}
	}
	return cmd
}

// ofCtl is the exit code and the hint of an error of that command line's.
func ofCtl(err error) (code int, hint string, ok bool) {
	var f *ctl.Failure
	if !errors.As(err, &f) {
		return 0, "", false
	}
	return f.Code, f.Hint, true
}
