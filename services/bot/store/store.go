// Package store says what the gateway keeps, and in which terms: turns of
// conversations, a ledger of what was used, sessions whose turns follow one another, and
// limits. Its packages keep it: memory all of it and sqlite turns and ledger, for one gateway;
// redis sessions and limits, postgres turns and ledger, for several at once. One
// suite of tests holds all of them to what is said here.
package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"
)

// What a store may answer to a request, apart from a failure.
var (
	// ErrBusy says that another turn of the session is under way.
	ErrBusy = errors.New("another turn of the session is under way")
	// ErrConflict says that there is another turn of that number.
	ErrConflict = errors.New("there is another turn of this number")
	// ErrUnlocked says that a session is not locked by this holder any more.
	ErrUnlocked = errors.New("the session is not locked any more")
	// ErrGone says that a reservation is not held any more.
	ErrGone = errors.New("the reservation is not held any more")
)

// Unknown is a session's number of turns when it is not known.
const Unknown = -1

// A Turn is what a user said, and what was answered.
type Turn struct {
	ID      string // of this turn and no other
	Session string // which includes whose it is
	Number  int64  // 1, 2, 3 … within the session
	At      time.Time
	User    string // what was said
	Reply   string
	Tokens  int // of both, about
}

// An Entry says what one answer has used. Times are of whole microseconds.
type Entry struct {
	ID       string // of this answer and no other
	At       time.Time
	Key      string // the API key that pays
	User     string
	Session  string // "" is none
	Endpoint string
	Model    string
	Upstream string // "" if none has answered
	Outcome  string
	Stream   bool
	Cached   bool
	// Prompt and Completion are tokens. Estimated says that the upstream did not tell.
	Prompt, Completion int64
	Estimated          bool
	Money              int64 // billionths
	Attempts           int64
	// Queue is the time that the request waited here, FirstByte that until the first byte
	// of the answer came, Took all of it.
	Queue, FirstByte, Took time.Duration
}

// A Record is what is written together: a turn, an entry, or both.
type Record struct {
	Turn  *Turn
	Entry *Entry
}

// An Archive keeps turns and the ledger.
type Archive interface {
	// Turns returns the last turns of a session, most of them at most, the oldest
	// first, and how many the session has; 0 is none.
	Turns(ctx context.Context, session string, most int) (turns []Turn, count int64, err error)
	// Write keeps records, all of them or none. It returns an error for each: nil, or
	// ErrConflict for a turn whose number another has; what is left of that record is kept.
	// What has been kept before, by its ID, is kept once. When err is not nil, it is not
	// known whether anything was kept: they may be written again.
	Write(ctx context.Context, records []Record) (each []error, err error)
	// Sum returns what the entries of a key have used, from a moment on. An answer that was
	// cached has used no tokens: its entry says how many it has.
	Sum(ctx context.Context, key string, from time.Time) (Cost, error)
	// Entries returns the last entries of a key, the newest first.
	Entries(ctx context.Context, key string, most int) ([]Entry, error)
	// Close frees what it has.
	Close() error
}

// A Resource is what can be limited.
type Resource string

// The resources.
const (
	Requests Resource = "requests"
	Tokens   Resource = "tokens"
	Money    Resource = "money" // billionths
)

// A Cost is so much of each resource.
type Cost struct{ Requests, Tokens, Money int64 }

// Of returns how much of one resource it is.
func (c Cost) Of(r Resource) int64 {
	switch r {
	case Requests:
		return c.Requests
	case Tokens:
		return c.Tokens
	case Money:
		return c.Money
	}
	return 0
}

// Minus returns the difference.
func (c Cost) Minus(d Cost) Cost {
	return Cost{c.Requests - d.Requests, c.Tokens - d.Tokens, c.Money - d.Money}
}

// A Limit bounds what a key may use of one resource within a window. Windows follow one another
// without a gap, in UTC: one of a day begins at midnight, one of a week on Monday (they are whole multiples of their
// length since the year 1).
type Limit struct {
	Resource Resource
	Amount   int64
	Window   time.Duration // 0 never ends
}

// MaxLimits bounds the limits of one key.
const MaxLimits = 16

// Start is when the window that holds a moment began; zero of one without an end.
func (l Limit) Start(now time.Time) time.Time {
	if l.Window == 0 {
		return time.Time{}
	}
	return now.Truncate(l.Window)
}

// Counter names what a limit counts at a moment: the same within one window.
func (l Limit) Counter(now time.Time) string {
	b := append([]byte(l.Resource), ':')
	b = strconv.AppendInt(b, l.Window.Milliseconds(), 10)
	if l.Window != 0 {
		b = strconv.AppendInt(append(b, ':'), l.Start(now).UnixMilli(), 10)
	}
	return string(b)
}

// A LimitError says which limit a request is beyond.
type LimitError struct {
	Limit      Limit
	Used       int64         // with what is reserved
	RetryAfter time.Duration // until the window ends; 0 if it never does
}

func (e *LimitError) Error() string {
	window := "in all"
	if e.Limit.Window > 0 {
		window = "per " + e.Limit.Window.String()
	}
	return fmt.Sprintf("limit reached: %d %s %s", e.Limit.Amount, e.Limit.Resource, window)
}

// Beyond makes the error of a limit that was reached.
func Beyond(l Limit, used int64, now time.Time) *LimitError {
	e := &LimitError{Limit: l, Used: used}
	if l.Window > 0 {
		e.RetryAfter = l.Start(now).Add(l.Window).Sub(now)
	}
	return e
}

// A Lock is a session that one turn has for itself until its lease ends.
type Lock struct {
	Session string
	Holder  string // a name that nobody else has
	Lease   time.Duration
}

// A Reservation is what is taken of a key's limits before it is known what is used.
type Reservation struct {
	ID     string // of this reservation and no other
	Key    string
	Limits []Limit // at least one
	At     time.Time
	Cost   Cost
	Lease  time.Duration // it is given back after that: its holder has died
}

// A Coordinator lets the turns of a session follow one another, and counts what keys use of their limits. The clocks of
// all gateways that share one should agree.
type Coordinator interface {
	// Begin locks a session and takes the cost of a reservation, or does neither; nil leaves one of them out. It returns
	// how many turns the session has, or Unknown. The error is ErrBusy while another holder has the session, and a
	// *LimitError for the first limit in the list that has less left than the cost. Two calls at once never take the same.
	// After any other error it is not known whether something was taken: End should follow.
	Begin(ctx context.Context, l *Lock, r *Reservation) (turns int64, err error)
	// Extend restarts the lease of a lock. The error is ErrUnlocked if it had ended.
	Extend(ctx context.Context, l *Lock) error
	// End unlocks a session, with how many turns it has now or Unknown, and puts what was used in place of what was
	// reserved, in the windows in which it was reserved; nil leaves one of them out. The error has ErrUnlocked if the lock
	// was not held any more, and ErrGone if the reservation was not: that one has changed nothing then.
	End(ctx context.Context, l *Lock, turns int64, r *Reservation, used Cost) error
	// Used returns what is used of each limit, with what is reserved.
	Used(ctx context.Context, key string, limits []Limit, now time.Time) ([]int64, error)
}

// NewID returns a name that nobody else has, nor can guess. It begins with the time, in
// milliseconds, so that indexes grow at their end.
func NewID() string {
	b := strconv.AppendInt(make([]byte, 0, 36), time.Now().UnixMilli(), 36)
	b = strconv.AppendUint(b, rand.Uint64(), 36)
	return string(strconv.AppendUint(b, rand.Uint64(), 36))
}
