package tcp

import (
	"encoding/binary"
	"errors"
	"fmt"

	"dyno/load/wire"
)

// MaxPayload is the largest payload to send with a length prefix: 16 MiB.
const MaxPayload = 16 << 20

// PrefixedConfig asks for messages that stand after their length: a big-endian
// number of Width bytes that does not count itself.
type PrefixedConfig struct {
	Width   int    // 1, 2 or 4 bytes, in both directions
	Payload []byte // to send, copied; may be empty
	Limit   int64  // bytes of an answer, its prefix not counted
}

// DefaultPrefixed returns the configuration for a payload: 4 bytes of length,
// answers of up to 16 MiB.
func DefaultPrefixed(payload []byte) PrefixedConfig {
	return PrefixedConfig{Width: 4, Payload: payload, Limit: 16 << 20}
}

// Validate reports everything that is wrong with the configuration.
func (c PrefixedConfig) Validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	largest := MaxPayload
	switch c.Width {
	case 1, 2:
		largest = 1<<(8*c.Width) - 1
	case 4:
	default:
		fault("prefix width %d: want 1, 2 or 4 bytes", c.Width)
	}
	if len(c.Payload) > largest {
		fault("payload of %d bytes: want at most %d", len(c.Payload), largest)
	}
	if c.Limit < 0 {
		fault("answer limit %d: want 0 bytes or more", c.Limit)
	}
	return errors.Join(faults...)
}

// A PrefixedTemplate holds what clients with length prefixes share.
type PrefixedTemplate struct {
	request []byte
	width   int64
	limit   int64
}

// NewPrefixed returns a template for clients with length prefixes.
func NewPrefixed(c PrefixedConfig) (*PrefixedTemplate, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("tcp: %w", err)
	}
	var prefix [4]byte
	binary.BigEndian.PutUint32(prefix[:], uint32(len(c.Payload)))
	request := make([]byte, 0, c.Width+len(c.Payload))
	request = append(request, prefix[4-c.Width:]...)
	request = append(request, c.Payload...)
	return &PrefixedTemplate{request: request, width: int64(c.Width), limit: c.Limit}, nil
}

// Client returns a new client, ready for a connection.
func (t *PrefixedTemplate) Client() *Prefixed { return &Prefixed{t: t} }

// A Prefixed is one connection's side of an exchange with length prefixes.
type Prefixed struct {
	exchange
	t      *PrefixedTemplate
	length int64 // of the answer, as far as its prefix has arrived
}

var _ wire.Client = (*Prefixed)(nil)

// Request starts the next exchange. All clients of a template return the same
// bytes.
func (c *Prefixed) Request() []byte {
	c.begin()
	c.length = 0
	return c.t.request
}

// Response consumes the prefix and as many bytes as it says; see wire.Client.
func (c *Prefixed) Response(p []byte) (n int, done bool, err error) {
	if !c.pending {
		return c.idle(p)
	}
	for ; c.got < c.t.width; n++ {
		if n == len(p) {
			return n, false, nil
		}
		c.length = c.length<<8 | int64(p[n])
		c.got++
	}
	if c.length > c.t.limit {
		return c.fail(n, ErrTooLong)
	}
	left := c.t.width + c.length - c.got
	used := min(int64(len(p)-n), left)
	n += int(used)
	c.got += used
	if used < left {
		return n, false, nil
	}
	return c.finish(n, len(p), nil)
}
