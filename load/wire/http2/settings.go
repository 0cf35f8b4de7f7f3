package http2

import (
	"encoding/binary"
)

// Settings are what this side announces to its peers.
type Settings struct {
	// StreamWindow and ConnectionWindow are bytes of content that a peer may have under way, for one
	// exchange and for all. A connection's is at least 65,535. All content is taken as it arrives. A
	// WINDOW_UPDATE says so when half of a window is used up.
	StreamWindow, ConnectionWindow int
}

const (
	initialWindow   = 1<<16 - 1 // RFC 9113, section 6.9.2
	maxWindow       = 1<<31 - 1
	minMaxFrameSize = 1 << 14 // SETTINGS_MAX_FRAME_SIZE unless an endpoint announces more, as this one does not
	maxMaxFrameSize = 1<<24 - 1
)

// DefaultSettings returns windows of 4 MiB and 16 MiB, about those of browsers. So windows are not what
// is measured.
func DefaultSettings() Settings { return Settings{StreamWindow: 4 << 20, ConnectionWindow: 16 << 20} }

// A setting's number (RFC 9113, section 6.5.2).
const (
	settingHeaderTableSize      = 1
	settingEnablePush           = 2
	settingMaxConcurrentStreams = 3
	settingInitialWindowSize    = 4
	settingMaxFrameSize         = 5
	settingMaxHeaderListSize    = 6
	settingEnableConnect        = 8 // RFC 8441, section 3
)

// payload returns the payload of the SETTINGS frame.
func (s Settings) payload(maxHeader int64) (b []byte) {
	add := func(number uint16, value, usual int) {
		if value != usual {
			b = binary.BigEndian.AppendUint16(b, number)
			b = binary.BigEndian.AppendUint32(b, uint32(value))
		}
	}
	add(settingEnablePush, 0, 1)
	add(settingInitialWindowSize, s.StreamWindow, initialWindow)
	add(settingMaxHeaderListSize, int(maxHeader), -1)
	return b
}

// preface returns what a connection begins with.
func (s Settings) preface(maxHeader int64) []byte {
	b := []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	payload := s.payload(maxHeader)
	b = append(appendFrameHeader(b, len(payload), frameSettings, 0, 0), payload...)
	if s.ConnectionWindow > initialWindow {
		b = appendFrameHeader(b, 4, frameWindowUpdate, 0, 0)
		b = binary.BigEndian.AppendUint32(b, uint32(s.ConnectionWindow-initialWindow))
	}
	return b
}
