package plane

import (
	"context"
	"errors"
	"fmt"
	"time"

	"dyno/services/control/push"
	"dyno/services/control/resource"
	"dyno/services/control/store"
)

// A ProblemKind says why a request failed. Each protocol has a table of its codes for each kind.
type ProblemKind string

// The kinds of problems of operations and admission. Protocols have some of their own.
const (
	BadToken         ProblemKind = "token"
	BadCertificate   ProblemKind = "certificate"
	RateExceeded     ProblemKind = "rate"
	NotPermitted     ProblemKind = "role"
	BadParameter     ProblemKind = "parameter"
	NotValid         ProblemKind = "invalid"
	TooLarge         ProblemKind = "large"
	Missing          ProblemKind = "missing"
	Exists           ProblemKind = "exists"
	Precondition     ProblemKind = "precondition"
	KeyReused        ProblemKind = "key"
	Contended        ProblemKind = "contended"
	Held             ProblemKind = "held"
	Follower         ProblemKind = "follower"
	InUse            ProblemKind = "used"
	Peers            ProblemKind = "peers"
	TooMany          ProblemKind = "limit"
	TooManyWatchers  ProblemKind = "watchers"
	Busy             ProblemKind = "busy"
	NoSpace          ProblemKind = "space"
	DiskFull         ProblemKind = "disk"
	Uncertain        ProblemKind = "uncertain"
	Unavailable      ProblemKind = "unavailable"
	Closed           ProblemKind = "closed"
	Canceled         ProblemKind = "canceled"
	DeadlineExceeded ProblemKind = "deadline"
	Internal         ProblemKind = "internal"
)

// ServerFault reports that the request is not at fault: another replica, or a later attempt, may succeed.
func (k ProblemKind) ServerFault() bool {
	switch k {
	case Busy, NoSpace, DiskFull, Uncertain, Unavailable, Closed, Internal:
		return true
	}
	return false
}

// A Problem is an error in the form that clients see.
type Problem struct {
	Kind   ProblemKind
	Detail string
	After  time.Duration    // pause before a retry; 0 is unknown
	Faults resource.Invalid // of NotValid
	// Primary is the address for the request, of Follower.
	Primary string
}

func (p *Problem) Error() string { return p.Detail }

// BadParameterf returns the problem of a parameter.
func BadParameterf(format string, args ...any) error {
	return &Problem{Kind: BadParameter, Detail: fmt.Sprintf(format, args...)}
}

// Unexpected is the problem for unexpected errors. Clients do not see their text.
var Unexpected = &Problem{Kind: Internal, Detail: "the log says more"}

// problems are the kinds of sentinel errors, in the order of matching.
var problems = []struct {
	err   error
	kind  ProblemKind
	after time.Duration
}{
	{store.ErrTooLarge, TooLarge, 0},
	{store.ErrPeers, Peers, 0},
	{ErrPrecondition, Precondition, 0},
	{ErrExists, Exists, 0},
	{ErrKeyReused, KeyReused, 0},
	{ErrHeld, Held, 0},
	{errTooManyWait, Busy, time.Second},
	{store.ErrLeaseEnded, Unavailable, time.Second},
	{ErrContended, Contended, time.Second},
	{store.ErrBusy, Busy, time.Second},
	{store.ErrNoSpace, NoSpace, 0},
	{store.ErrDiskFull, DiskFull, 0},
	{store.ErrUncertain, Uncertain, 0},
	{store.ErrUnavailable, Unavailable, time.Second},
	{store.ErrClosed, Closed, time.Second},
	{push.ErrClosed, Closed, time.Second},
	{context.Canceled, Canceled, 0},
	{context.DeadlineExceeded, DeadlineExceeded, 0},
}

// ProblemOf returns an error as a Problem.
func ProblemOf(err error) *Problem {
	var (
		own     *Problem
		invalid resource.Invalid
		many    *resource.TooMany
		missing *NotFound
	)
	switch {
	case errors.As(err, &own):
		return own
	case errors.As(err, &invalid):
		return &Problem{Kind: NotValid, Detail: invalid.Error(), Faults: invalid}
	case errors.As(err, &missing):
		return &Problem{Kind: Missing, Detail: err.Error()}
	case errors.As(err, &many):
		return &Problem{Kind: TooMany, Detail: err.Error()}
	}
	for _, p := range problems {
		if errors.Is(err, p.err) {
			return &Problem{Kind: p.kind, Detail: err.Error(), After: p.after}
		}
	}
	return Unexpected
}
