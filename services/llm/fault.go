package llm

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// A FaultKind is a kind of fault in an answer.
type FaultKind string

// The kinds of faults. A status (400 to 599) is a kind as well: the request is
// answered with it.
const (
	FaultNone      FaultKind = ""
	FaultCut       FaultKind = "cut"       // the connection ends after some tokens, without an end of the answer
	FaultMalformed FaultKind = "malformed" // a chunk that is no JSON after some tokens; the stream goes on
	FaultNoUsage   FaultKind = "no_usage"  // the answer has no usage
	FaultSlow      FaultKind = "slow"      // the first byte comes late
	FaultHang      FaultKind = "hang"      // nothing is answered until the client goes
)

// A Fault is something that goes wrong. The zero value is nothing.
type Fault struct {
	Kind FaultKind
	// After is how many tokens come before it, for cut and malformed.
	After int
	// Delay is how late the first byte is, for slow.
	Delay time.Duration
	// RetryAfter is the header field of that name, in whole seconds, for a status; 0 leaves it out.
	RetryAfter time.Duration
}

// FaultField is the field by which a request asks for a fault.
const FaultField = "X-Dyno-Fault"

// ParseFault reads a kind and its parameters: "429;retry_after=2s", "503",
// "cut;after=3", "malformed;after=1", "no_usage", "slow;delay=2s", "hang".
func ParseFault(text string) (Fault, error) {
	kind, rest, more := strings.Cut(text, ";")
	f := Fault{Kind: FaultKind(strings.TrimSpace(kind))}
	for more {
		var p string
		p, rest, more = strings.Cut(rest, ";")
		name, value, _ := strings.Cut(strings.TrimSpace(p), "=")
		var err error
		switch name {
		case "after":
			if f.After, err = strconv.Atoi(value); err != nil {
				err = fmt.Errorf("%q: want a number of tokens, such as 3", value)
			}
		case "delay":
			f.Delay, err = parseDuration(value)
		case "retry_after":
			f.RetryAfter, err = parseDuration(value)
		default:
			err = errors.New("must be after, delay or retry_after")
		}
		if err != nil {
			return Fault{}, fmt.Errorf("%q: parameter %q: %w", text, name, err)
		}
	}
	if f.Kind == FaultNone {
		return Fault{}, fmt.Errorf("%q: no kind of fault", text)
	}
	if err := f.Validate(); err != nil {
		return Fault{}, fmt.Errorf("%q: %w", text, err)
	}
	return f, nil
}

// status is the status that f answers with; 0 for other kinds.
func (f Fault) status() int {
	n, err := strconv.Atoi(string(f.Kind))
	if err != nil || n < http.StatusBadRequest || n > 599 {
		return 0
	}
	return n
}

// Validate reports every fault of f at once, such as parameters that its kind does not have.
func (f Fault) Validate() error {
	var errs []error
	fault := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	after, delay, retry := false, false, false
	switch f.Kind {
	case FaultNone, FaultNoUsage, FaultHang:
	case FaultCut, FaultMalformed:
		after = true
	case FaultSlow:
		delay = true
	default:
		retry = true
		if f.status() == 0 {
			fault("kind %q: must be a status from 400 to 599, cut, malformed, no_usage, slow or hang", string(f.Kind))
		}
	}
	if f.After < 0 || f.After > maxTokens || f.After != 0 && !after {
		fault("after %d: must be from 0 to %d, with cut and malformed only", f.After, maxTokens)
	}
	if f.Delay < 0 || f.Delay > maxDelay || f.Delay != 0 && !delay {
		fault("delay %v: must be from 0 to %v, with slow only", f.Delay, maxDelay)
	}
	if f.RetryAfter < 0 || f.RetryAfter > 24*time.Hour || f.RetryAfter%time.Second != 0 || f.RetryAfter != 0 && !retry {
		fault("retry_after %v: must be whole seconds from 0 to 24h, with a status only", f.RetryAfter)
	}
	return errors.Join(errs...)
}

// A FaultRate is a fault that happens by chance.
type FaultRate struct {
	Fault       Fault
	Probability float64 // from 0 to 1
}

// ParseFaultRate reads "PROBABILITY=FAULT", such as "0.01=429;retry_after=2s".
func ParseFaultRate(text string) (FaultRate, error) {
	p, fault, ok := strings.Cut(text, "=")
	if !ok {
		return FaultRate{}, fmt.Errorf("%q: want PROBABILITY=FAULT, such as 0.01=429", text)
	}
	var r FaultRate
	var err error
	if r.Probability, err = strconv.ParseFloat(p, 64); err != nil {
		return FaultRate{}, fmt.Errorf("%q: probability %q: want a number from 0 to 1", text, p)
	}
	if r.Fault, err = ParseFault(fault); err != nil {
		return FaultRate{}, err
	}
	return r, r.Validate()
}

// Validate reports every fault of r at once.
func (r FaultRate) Validate() error {
	var errs []error
	if !(r.Probability >= 0 && r.Probability <= 1) { // NaN is neither
		errs = append(errs, fmt.Errorf("probability %v: must be from 0 to 1", r.Probability))
	}
	return errors.Join(append(errs, r.Fault.Validate())...)
}

// draw returns the fault that a number from 0 to 1 stands for.
func draw(rates []FaultRate, at float64) Fault {
	for _, r := range rates {
		if at < r.Probability {
			return r.Fault
		}
		at -= r.Probability
	}
	return Fault{}
}
