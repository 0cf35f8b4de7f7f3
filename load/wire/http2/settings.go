package http2

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Settings are what this side announces to its peers.
type Settings struct {
	// StreamWindow and ConnectionWindow are how many bytes of content a peer may have
	// under way, for one exchange and for all. A connection's is at least 65,535. All content
	// is taken as it arrives. A WINDOW_UPDATE says so when half of a window is used up.
	StreamWindow, ConnectionWindow int

	MaxFrameSize    int // bytes of payload: 16,384 to 16,777,215
	HeaderTableSize int // of the dynamic table for response headers: 0 to 1 MiB
}

const (
	initialWindow   = 1<<16 - 1 // RFC 9113, section 6.9.2
	maxWindow       = 1<<31 - 1
	minMaxFrameSize = 1 << 14
	maxMaxFrameSize = 1<<24 - 1
)

// DefaultSettings returns windows of 4 MiB and 16 MiB, much as browsers have, so that
// they are not what is measured, frames of 16 KiB and a table of 4 KiB.
func DefaultSettings() Settings {
	return Settings{
		StreamWindow: 4 << 20, ConnectionWindow: 16 << 20,
		MaxFrameSize: minMaxFrameSize, HeaderTableSize: defaultTableSize,
	}
}

// Validate reports every setting that HTTP/2 does not allow.
func (s Settings) Validate() error {
	var faults []error
	within := func(name string, n, least, most int) {
		if n < least || n > most {
			faults = append(faults, fmt.Errorf("%s %d: want %d to %d", name, n, least, most))
		}
	}
	within("stream window", s.StreamWindow, 1, maxWindow)
	within("connection window", s.ConnectionWindow, initialWindow, maxWindow)
	within("max frame size", s.MaxFrameSize, minMaxFrameSize, maxMaxFrameSize)
	within("header table size", s.HeaderTableSize, 0, maxTableSize)
	return errors.Join(faults...)
}

// maxTableSize bounds the memory of a connection.
const maxTableSize = 1 << 20

// A setting's number (RFC 9113, section 6.5.2).
const (
	settingHeaderTableSize      = 1
	settingEnablePush           = 2
	settingMaxConcurrentStreams = 3
	settingInitialWindowSize    = 4
	settingMaxFrameSize         = 5
	settingMaxHeaderListSize    = 6
)

// payload returns the payload of the SETTINGS frame.
func (s Settings) payload(l Limits) (b []byte) {
	add := func(number uint16, value, usual int) {
		if value != usual {
			b = binary.BigEndian.AppendUint16(b, number)
			b = binary.BigEndian.AppendUint32(b, uint32(value))
		}
	}
	add(settingHeaderTableSize, s.HeaderTableSize, defaultTableSize)
	add(settingEnablePush, 0, 1)
	add(settingInitialWindowSize, s.StreamWindow, initialWindow)
	add(settingMaxFrameSize, s.MaxFrameSize, minMaxFrameSize)
	add(settingMaxHeaderListSize, int(l.HeaderBytes), -1)
	return b
}

// preface returns what a connection begins with.
func (s Settings) preface(l Limits) []byte {
	b := []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	payload := s.payload(l)
	b = append(appendFrameHeader(b, len(payload), frameSettings, 0, 0), payload...)
	if s.ConnectionWindow > initialWindow {
		b = appendFrameHeader(b, 4, frameWindowUpdate, 0, 0)
		b = binary.BigEndian.AppendUint32(b, uint32(s.ConnectionWindow-initialWindow))
	}
	return b
}
