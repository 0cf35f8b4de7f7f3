// Package llm is a model server that has no model: it speaks the parts of OpenAI's
// protocol that gateways and clients use, answers with tokens that follow from the
// request alone, as slowly as configured, and fails as configured. It is the
// upstream of tests, and the target of load with nothing of its own to measure. It speaks
// HTTP/1.1, and HTTP/2 without TLS with clients that begin with it.
//
// A repeated request gets the same answer, whatever was asked before. Delays and faults
// that are left to chance follow from Config.Seed and the request's number.
package llm

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"dyno/services/internal/serve"
)

// Config says what the server does. Start from Defaults.
type Config struct {
	// Listen is where clients connect: host:port, [ipv6]:port or unix:PATH; port 0
	// picks one. It must be a loopback address unless AllowRemote is set. "" is for
	// servers that are used by their Handler only.
	Listen string
	// AllowRemote permits Listen and Admin addresses that other machines reach.
	AllowRemote bool
	serve.AdminListener

	// Models are the names that are served. A request for another is answered with 404.
	Models []string
	// Tokens is how many tokens an answer has, unless its request wants fewer.
	Tokens int
	// MaxTokens bounds what a request may ask for, of all its choices together (beyond:
	// 400).
	MaxTokens int
	// MaxBodyBytes bounds a request's body (beyond: 413).
	MaxBodyBytes int64
	// MaxConcurrent bounds the answers under way (beyond: 429 with Retry-After).
	MaxConcurrent int

	// FirstToken is the time from a request to its first token, InterToken the time
	// between tokens. An answer that is no stream takes as long as a stream would.
	FirstToken, InterToken Delay
	// Faults happen by chance. The first that is drawn happens; a request's X-Dyno-Fault
	// field goes before all of them.
	Faults []FaultRate
	// FaultHeader lets requests ask for faults by X-Dyno-Fault.
	FaultHeader bool
	// Seed makes delays and faults repeatable.
	Seed uint64

	// DrainTimeout is how long answers under way may go on when Serve's context has
	// ended. The rest are cut.
	DrainTimeout time.Duration
	// Logger takes what happens to the service; nil discards.
	Logger *slog.Logger
}

// Bounds of Config's numbers.
const (
	maxModels     = 1024
	maxTokens     = 1 << 20
	maxConcurrent = 1 << 20
)

// Defaults returns the Config that every field starts from. It has no address, and
// neither delays nor faults.
func Defaults() Config {
	return Config{
		Models:        []string{"dyno-1"},
		Tokens:        32,
		MaxTokens:     32 << 10,
		MaxBodyBytes:  4 << 20,
		MaxConcurrent: 16384,
		FaultHeader:   true,
		DrainTimeout:  10 * time.Second,
	}
}

// Validate reports every fault at once: the field, its value, what would be right.
func (c Config) Validate() error {
	var errs []error
	fault := func(field string, value any, want string) {
		errs = append(errs, fmt.Errorf("%s: %v: %s", field, value, want))
	}
	between := func(field string, value, low, high int64) {
		if value < low || value > high {
			fault(field, value, fmt.Sprintf("must be from %d to %d", low, high))
		}
	}
	if c.Listen != "" {
		if err := serve.CheckListen("listen", c.Listen, c.AllowRemote); err != nil {
			errs = append(errs, err)
		}
	}
	if err := c.CheckAdmin(c.AllowRemote); err != nil {
		errs = append(errs, err)
	}
	between("models", int64(len(c.Models)), 1, maxModels)
	for i, m := range c.Models {
		if m == "" || len(m) > maxModelName {
			fault(fmt.Sprintf("model %d", i+1), fmt.Sprintf("%q", m), fmt.Sprintf("must have 1 to %d bytes", maxModelName))
		}
	}
	between("max tokens", int64(c.MaxTokens), 1, maxTokens)
	between("tokens", int64(c.Tokens), 1, int64(max(c.MaxTokens, 1)))
	between("max body bytes", c.MaxBodyBytes, 1, 1<<30)
	between("max concurrent", int64(c.MaxConcurrent), 1, maxConcurrent)
	for _, d := range []struct {
		field string
		delay Delay
	}{{"first token", c.FirstToken}, {"inter token", c.InterToken}} {
		if err := d.delay.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", d.field, err))
		}
	}
	total := 0.0
	for i, f := range c.Faults {
		if err := f.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("fault %d: %w", i+1, err))
		}
		total += f.Probability
	}
	if total > 1 {
		fault("faults", total, "probabilities must not add up to more than 1")
	}
	if c.DrainTimeout < 0 {
		fault("drain timeout", c.DrainTimeout, "must be 0 (cut at once) or more")
	}
	return errors.Join(errs...)
}
