package oracle

import (
	"errors"
	"fmt"
	"net/netip"
	"time"
)

// A Protocol is what a server speaks.
type Protocol uint8

// The protocols.
const (
	HTTP Protocol = iota // HTTP/1.1; the default
	TCP                  // bytes, echoed as they come: StartNull only
)

// String returns the protocol's name.
func (p Protocol) String() string {
	switch p {
	case HTTP:
		return "http"
	case TCP:
		return "tcp"
	}
	return fmt.Sprintf("protocol(%d)", uint8(p))
}

// Command is dyno's hidden command that starts the servers as processes of their own.
const Command = "__oracle"

// Bounds that Validate and the servers hold.
const (
	maxHead        = 64 << 10 // bytes of a request's head, and of unparsed input per connection
	maxRequestBody = 64 << 20 // bytes of a request's body
	maxSize        = 1 << 20  // bytes of an answer's body
	maxSpin        = 10 * time.Millisecond
	maxDelay       = time.Hour // of any draw, hold or period
)

// A Config is what all servers have in common. Its zero value serves HTTP on a
// free port of 127.0.0.1.
type Config struct {
	Addr     string   // loopback address and port; default 127.0.0.1:0
	Protocol Protocol // default HTTP

	Body int   // bytes of an HTTP answer's body; default 64
	CPUs []int // CPUs the loop's thread may use; default any

	// Spin is how long before a timer is due the loop stops sleeping and polls
	// instead. 60 µs covers a thread's usual wake-up; it costs a CPU while a
	// timer is near. Default none.
	Spin time.Duration

	// Connections bounds those open at once; default 10,000. Past it, clients
	// wait in the kernel's backlog until another connection closes.
	Connections int
}

// withDefaults returns the configuration with its zero values replaced.
func (c Config) withDefaults() Config {
	if c.Addr == "" {
		c.Addr = "127.0.0.1:0"
	}
	if c.Body == 0 {
		c.Body = 64
	}
	if c.Connections == 0 {
		c.Connections = 10_000
	}
	return c
}

// Validate reports every fault of the configuration, or nil. Zero values mean
// the defaults and are valid.
func (c Config) Validate() error {
	c = c.withDefaults()
	var faults []error
	fault := func(field string, value any, right string) {
		faults = append(faults, fmt.Errorf("oracle: %s: %v: %s", field, value, right))
	}
	if a, err := netip.ParseAddrPort(c.Addr); err != nil {
		fault("addr", c.Addr, "must be an address and a port, as 127.0.0.1:0")
	} else if !a.Addr().IsLoopback() {
		fault("addr", c.Addr, "must be a loopback address, as 127.0.0.1:0 or [::1]:0")
	}
	if c.Protocol > TCP {
		fault("protocol", c.Protocol, "must be HTTP or TCP")
	}
	if c.Body < 0 || c.Body > maxSize {
		fault("body", c.Body, fmt.Sprintf("must be between 0 and %d bytes", maxSize))
	}
	for _, cpu := range c.CPUs {
		if cpu < 0 || cpu > 1023 {
			fault("cpus", cpu, "must be a CPU's number, from 0")
		}
	}
	if c.Spin < 0 || c.Spin > maxSpin {
		fault("spin", c.Spin, fmt.Sprintf("must be between 0 and %v", maxSpin))
	}
	if c.Connections < 0 {
		fault("connections", c.Connections, "must be positive")
	}
	return errors.Join(faults...)
}

// validateHTTP is Validate for servers that speak nothing but HTTP.
func (c Config) validateHTTP() error {
	err := c.Validate()
	if c.Protocol != HTTP {
		err = errors.Join(err, fmt.Errorf("oracle: protocol: %v: must be HTTP", c.Protocol))
	}
	return err
}

// validDuration returns a fault unless d lies in (0, maxDelay].
func validDuration(field string, d time.Duration) error {
	if d <= 0 || d > maxDelay {
		return fmt.Errorf("oracle: %s: %v: must be more than 0 and at most %v", field, d, maxDelay)
	}
	return nil
}
