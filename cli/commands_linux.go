package cli

import (
	"github.com/spf13/cobra"

	"dyno/cli/doctor"
	"dyno/cli/imports"
	"dyno/cli/serve"
	"dyno/host/child"
	"dyno/host/sysctl"
	"dyno/host/target"
	"dyno/internal/buildinfo"
	"dyno/lab/generator"
	"dyno/lab/observation"
	"dyno/lab/remote"
	"dyno/selftest/disturb"
)

// linuxCommands returns the commands that need Linux.
func (a *app) linuxCommands() []*cobra.Command {
	return []*cobra.Command{a.agentCommand(), doctor.Command(a.args, buildinfo.Version()), doctor.OracleCommand(), serve.Command()}
}

// roles are those of processes that dyno starts of itself.
func roles() []child.Role {
	return []child.Role{target.Role(), generator.Role(observation.OfPart), remote.Role(), sysctl.Role(), disturb.Role(), imports.Role()}
}
