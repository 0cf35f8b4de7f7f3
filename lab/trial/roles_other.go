//go:build !linux

package trial

import "dyno/host/child"

// Roles returns the roles of processes that a run starts: none here, where it starts no processes.
func Roles() []child.Role { return nil }
