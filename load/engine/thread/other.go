//go:build !linux

package thread

import "errors"

var errNoPlacing = errors.New("this system does not place threads on CPUs: leave the CPUs out")
