//go:build !linux

package agents

import "context"

// startControl starts none: dyno-control needs Linux.
func (a *Access) startControl(context.Context, *ControlPlane) (started bool, err error) {
	return false, nil
}
