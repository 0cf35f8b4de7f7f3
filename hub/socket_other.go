//go:build !linux

package hub

import (
	"errors"
	"fmt"
	"net"
	"syscall"
)

func (c Config) setSocket(net.Conn) ([]socketOption, error) {
	if !c.socketOptions() {
		return nil, nil
	}
	return nil, fmt.Errorf("socket options: %w", errors.ErrUnsupported)
}

// duplicate is for the event loop, which needs Linux.
func duplicate(syscall.Conn) (int, error) { return -1, errors.ErrUnsupported }
