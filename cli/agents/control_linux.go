package agents

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"dyno/cli/serve"
	"dyno/host/target"
	"dyno/internal/exit"
)

// startControl starts a control plane at the default address until this command ends. It starts none if a flag names the
// fleet's address, or one is there already. Without dyno-control it starts none either: connecting then fails with a
// hint. started tells whether it did.
func (a *Access) startControl(ctx context.Context, control *ControlPlane) (started bool, err error) {
	if len(control.Addresses()) > 0 {
		return false, nil
	}
	program, err := serve.FindProgram(serve.ControlProgram)
	if err != nil {
		return false, nil //nolint:nilerr // see above
	}
	data, err := stateFolder("fleet")
	if err != nil {
		return false, exit.With(exit.Usage, err, "set HOME or XDG_STATE_HOME, or name a control plane with --control-plane")
	}
	p, err := target.Start(ctx, target.Spec{
		Args:  []string{program, "--listen", strings.TrimPrefix(defaultControl, "http://"), "--data", data, "--drain-timeout", "1s"},
		Ready: target.Probe{HTTP: defaultControl + "/v1/configs?namespace=fleet"}, // of the store, too
	})
	if errors.Is(err, target.ErrPortInUse) {
		return false, nil
	}
	if err != nil {
		return false, exit.With(exit.Target, fmt.Errorf("--control-plane: none is at %s, and one could not be started: %w", defaultControl, err), controlsHint)
	}
	a.atEnd(func() error { return p.Stop(context.WithoutCancel(ctx)) })
	fmt.Fprintf(a.stderr, "no control plane was at %s: one runs until this command ends, with its data in %s\n", defaultControl, data)
	return true, nil
}
