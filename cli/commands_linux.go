package cli

import (
	"github.com/spf13/cobra"

	"dyno/cli/doctor"
	"dyno/cli/imports"
	"dyno/cli/serve"
	"dyno/host/child"
	"dyno/host/sysctl"
	"dyno/host/target"
	"dyno/lab/generator"
	"dyno/lab/observation"
	"dyno/lab/remote"
)

// linuxCommands returns the commands that need Linux.
func (a *app) linuxCommands() []*cobra.Command {
	return []*cobra.Command{a.agentCommand(), doctor.Command(), doctor.OracleCommand(), serve.Command()}
}

// roles are those of processes that dyno starts of itself.
func roles() []child.Role {
	return []child.Role{target.Role(), generator.Role(observation.OfPart), remote.Role(), sysctl.Role(), imports.Role()}
}
