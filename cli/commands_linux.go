package cli

import (
	"github.com/spf13/cobra"

	"dyno/cli/doctor"
	"dyno/cli/serve"
)

// linuxCommands returns the commands that need Linux.
func (a *app) linuxCommands() []*cobra.Command {
	return []*cobra.Command{a.agents.AgentCommand(), doctor.Command(), doctor.OracleCommand(), serve.Command()}
}
