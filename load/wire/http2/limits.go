package http2

import (
	"errors"
	"fmt"
)

// Limits bound what one response may hold.
type Limits struct {
	// HeaderBytes bounds a header or trailer section twice: its encoded block, beyond
	// which the connection is lost, and the list of its fields as RFC 9113, section 6.5.2
	// counts it, beyond which the exchange is. The peer learns it from the settings.
	HeaderBytes int64

	BodyBytes     int64 // content, without padding; beyond it the exchange is lost
	Informational int   // 1xx responses before the final one, beyond which the exchange fails
}

// minHeaderBytes leaves room for a status and the shortest useful header.
const minHeaderBytes = 64

// maxHeaderBytes keeps what a peer can make this side hold for a connection small.
const maxHeaderBytes = 1 << 24

// DefaultLimits returns 64 KiB of header, 1 GiB of body and 8 informational responses.
func DefaultLimits() Limits {
	return Limits{HeaderBytes: 64 << 10, BodyBytes: 1 << 30, Informational: 8}
}

// Validate reports every limit that cannot be kept.
func (l Limits) Validate() error {
	var faults []error
	if l.HeaderBytes < minHeaderBytes || l.HeaderBytes > maxHeaderBytes {
		faults = append(faults, fmt.Errorf("header limit %d: want %d to %d bytes", l.HeaderBytes, minHeaderBytes, maxHeaderBytes))
	}
	if l.BodyBytes < 0 {
		faults = append(faults, fmt.Errorf("body limit %d: want 0 bytes or more", l.BodyBytes))
	}
	if l.Informational < 0 || l.Informational > 255 {
		faults = append(faults, fmt.Errorf("informational limit %d: want 0 to 255", l.Informational))
	}
	return errors.Join(faults...)
}

// What a peer may do that brings nothing, before the connection is ended with
// ENHANCE_YOUR_CALM.
const (
	// maxPings is the number of our own pings that may be unanswered: a peer that sends but
	// does not read is not pinged any more.
	maxPings = 8

	// maxUseless is the number of frames in a row that bring nothing: SETTINGS, PING,
	// PRIORITY, WINDOW_UPDATE, unknown types, DATA without data, and what is on streams
	// that have ended. A response's header, content, or something that this side sends
	// begins a new row.
	maxUseless = 10_000

	// maxReplies is the number of replies (to PING and SETTINGS, and RST_STREAM) that
	// may wait for the peer to read them. They take at most 17 bytes each.
	maxReplies = 4096

	// maxContinuations is the number of CONTINUATION frames in one header block.
	maxContinuations = 128

	// maxSettings is the number of settings in one SETTINGS frame.
	maxSettings = 256
)

const (
	// outputTarget is how much waits to be written before more content is cut into
	// DATA frames.
	outputTarget = 64 << 10

	// maxDataFrame is the longest DATA frame that is sent, even if the peer takes longer
	// ones, so that exchanges take turns.
	maxDataFrame = 16 << 10

	// maxRemembered is the number of streams that were given up whose late frames are
	// distinguished from those that should not come. Those before them are trusted.
	maxRemembered = 64
)
