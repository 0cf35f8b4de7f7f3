package trial

import (
	"errors"
	"maps"
	"strings"

	"dyno/host/sysctl"
)

// setSysctls changes the kernel settings that the experiment names, and records them with
// their old values. The returned function restores them.
func (r *runner) setSysctls() (restore func() error, err error) {
	wanted := r.experiment.Sysctl
	if len(wanted) == 0 {
		return func() error { return nil }, nil
	}
	settings, err := sysctl.Set(wanted)
	if err != nil {
		return nil, &PlanError{err}
	}
	env := &r.run.Environment
	env.SysctlsSet = maps.Clone(wanted)
	// A resumed run shares the map with the folder that it was read from.
	env.Sysctls = maps.Clone(env.Sysctls)
	if env.Sysctls == nil {
		env.Sysctls = make(map[string]string)
	}
	for name, value := range settings.Found() {
		env.Sysctls[name] = strings.Join(strings.Fields(value), " ")
	}
	if err := r.folder.Update(r.run); err != nil {
		return nil, errors.Join(err, settings.Restore())
	}
	return settings.Restore, nil
}
