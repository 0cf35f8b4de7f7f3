package http1

import (
	"errors"
	"fmt"
)

// Limits bound what one response may hold. A response beyond a limit is refused
// with a protocol error, and its connection is lost.
type Limits struct {
	HeaderBytes   int64 // status line and header together; also the trailer section
	BodyBytes     int64 // content, without chunk framing
	Informational int   // 1xx responses before the final one
}

// minHeaderBytes leaves room for a status line and the shortest useful header.
const minHeaderBytes = 64

// DefaultLimits returns 64 KiB of header, 1 GiB of body and 8 informational
// responses.
func DefaultLimits() Limits {
	return Limits{HeaderBytes: 64 << 10, BodyBytes: 1 << 30, Informational: 8}
}

// Validate reports every limit that cannot be kept.
func (l Limits) Validate() error {
	var faults []error
	if l.HeaderBytes < minHeaderBytes {
		faults = append(faults, fmt.Errorf("header limit %d: want at least %d bytes", l.HeaderBytes, minHeaderBytes))
	}
	if l.BodyBytes < 0 {
		faults = append(faults, fmt.Errorf("body limit %d: want 0 bytes or more", l.BodyBytes))
	}
	if l.Informational < 0 {
		faults = append(faults, fmt.Errorf("informational limit %d: want 0 or more", l.Informational))
	}
	return errors.Join(faults...)
}
