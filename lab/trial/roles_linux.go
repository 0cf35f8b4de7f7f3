package trial

import (
	"dyno/host/child"
	"dyno/host/sysctl"
	"dyno/host/target"
	"dyno/lab/generator"
	"dyno/lab/observation"
	"dyno/lab/remote"
)

// Roles returns the roles of processes that a run starts: each is the running program again.
func Roles() []child.Role {
	return []child.Role{target.Role(), generator.Role(observation.OfPart), remote.Role(), sysctl.Role()}
}
