// Package store defines the gateway's data: turns of conversations, a ledger of usage, sessions whose turns follow
// one another, limits, and the directory of keys that are made at run time. Its packages keep it: memory all of it and
// sqlite turns, ledger and directory, for one gateway; redis sessions and limits, postgres turns, ledger and directory,
// for several at once. Relational has what sqlite and postgres do alike. One suite of tests checks all of them.
package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Results of a store other than failures.
var (
	// ErrBusy says that another turn has the session.
	ErrBusy = errors.New("another turn of the session is under way")
	// ErrConflict says that another turn has this number.
	ErrConflict = errors.New("there is another turn of this number")
	// ErrUnlocked says that this holder's lock of a session has ended.
	ErrUnlocked = errors.New("the session is not locked any more")
	// ErrGone says that a reservation has ended.
	ErrGone = errors.New("the reservation is not held any more")
)

// Unfinished is the outcome of an entry that is not replaced yet: the answer is under way, here or only at its upstream, or
// the gateway was killed.
const Unfinished = "unfinished"

// Unknown is an unknown number of turns.
const Unknown = -1

// A Turn is a user's message and its answer.
type Turn struct {
	ID      string // unique
	Session string // includes the owner
	Number  int64  // 1, 2, 3 … within the session
	At      time.Time
	User    string // the message
	Reply   string
	Tokens  int // estimate for both
}

// An Entry is the usage of one answer. Times are whole microseconds. The names are those of the log of requests.
type Entry struct {
	ID       string    `json:"id"` // unique
	At       time.Time `json:"-"`
	Key      string    `json:"key,omitempty"`   // the paying API key
	Team     string    `json:"team,omitempty"`  // the key's; "" is none
	Owner    string    `json:"owner,omitempty"` // the user who has the key; "" is none
	User     string    `json:"user.id,omitempty"`
	Session  string    `json:"-"` // "" is none
	Endpoint string    `json:"endpoint,omitempty"`
	Model    string    `json:"gen_ai.response.model,omitempty"`
	Upstream string    `json:"deployment,omitempty"` // "" if none has answered
	Outcome  string    `json:"outcome,omitempty"`
	Stream   bool      `json:"stream,omitempty"`
	Cached   bool      `json:"cached,omitempty"`
	// Prompt and Completion are tokens. Estimated says that the upstream did not report them.
	Prompt     int64 `json:"gen_ai.usage.input_tokens,omitempty"`
	Completion int64 `json:"gen_ai.usage.output_tokens,omitempty"`
	Estimated  bool  `json:"estimated,omitempty"`
	// Kinds are parts of these tokens that may have prices of their own, as JSON; "" is none.
	Kinds string `json:"-"`
	// Units is what some endpoints use apart from tokens, in their Unit: images, seconds, characters or documents.
	Unit     string `json:"unit,omitempty"` // "" is none
	Units    int64  `json:"units,omitempty"`
	Price    string `json:"price,omitempty"`           // the name of the Price by which Money was computed; "" is none
	Money    int64  `json:"cost_billionths,omitempty"` // billionths
	Attempts int64  `json:"tries,omitempty"`
	// Queue is the request's wait in this gateway, FirstByte the time to the answer's first byte, Took the total.
	Queue, FirstByte, Took time.Duration `json:"-"`
}

// A Price is what the name of a price in entries means, as JSON.
type Price struct{ Name, Terms string }

// A Record is a turn, an entry, or both, written together. Price is that of the entry, where it may be new.
type Record struct {
	Turn  *Turn
	Entry *Entry
	Price *Price
}

// A Part is a part of the ledger: of one key, or of all keys of a team or of a user, whichever is not "".
type Part struct {
	Key, Team, Owner string
	Model            string // as in Matches; "" is all
}

// Matches reports whether a name is the pattern, or begins as a pattern that ends in *.
func Matches(pattern, name string) bool {
	before, many := strings.CutSuffix(pattern, "*")
	return pattern == name || many && strings.HasPrefix(name, before)
}

// Account returns the name of the counters of a key, a team or a user.
func (p Part) Account() string {
	switch {
	case p.Team != "":
		return "team\x00" + p.Team
	case p.Owner != "":
		return "user\x00" + p.Owner
	}
	return p.Key
}

// A Grouping says what usage is grouped by.
type Grouping struct{ Key, Team, Owner, Model, Day bool }

// A Usage is the usage of one group, with the members that it is grouped by.
type Usage struct {
	Key, Team, Owner, Model string
	Day                     int64 // since 1970, in UTC
	Requests                int64
	Prompt, Completion      int64 // tokens, without those of cached answers
	Money                   int64 // billionths
}

// An Archive keeps turns, the ledger, the directory and whose the objects at upstreams are.
type Archive interface {
	Directory
	Objects
	// Turns returns up to most of a session's last turns, the oldest first, and its number of turns.
	Turns(ctx context.Context, session string, most int) (turns []Turn, count int64, err error)
	// Write keeps records, all or none. It returns an error for each: nil, or ErrConflict for a turn whose number
	// another has; the rest of that record is kept. A record with a known ID is kept once; another entry replaces one
	// that is Unfinished. If err is not nil, the
	// outcome is unknown, and the records may be written again.
	Write(ctx context.Context, records []Record) (each []error, err error)
	// Sum returns the usage of a part of the ledger from a time on. A cached answer has used no tokens, although its
	// entry says how many it has.
	Sum(ctx context.Context, p Part, from time.Time) (Cost, error)
	// Usage returns the usage of up to most groups from one time until before another, in the order of the groups.
	Usage(ctx context.Context, by Grouping, from, to time.Time, most int) ([]Usage, error)
	// Entries returns up to most of a key's last entries, the newest first.
	Entries(ctx context.Context, key string, most int) ([]Entry, error)
	// Prices returns the terms of all prices, by their names.
	Prices(ctx context.Context) (map[string]json.RawMessage, error)
	// Expire deletes up to most turns, entries or audit from before a time, and returns how many. Gateways that share an
	// archive do so one at a time: others delete nothing meanwhile.
	Expire(ctx context.Context, what string, before time.Time, most int) (int64, error)
	// Erase deletes the turns of a user, of any key, and has entries and objects forget whose they are.
	Erase(ctx context.Context, user string) error
	// Close releases its resources.
	Close() error
}

// A Resource is a resource that can be limited.
type Resource string

// The resources.
const (
	Requests Resource = "requests"
	Tokens   Resource = "tokens"
	Money    Resource = "money"    // billionths
	Parallel Resource = "parallel" // requests under way: reserved, and not used afterwards
)

// A Cost is an amount of each resource.
type Cost struct{ Requests, Tokens, Money, Parallel int64 }

// Of returns the amount of one resource.
func (c Cost) Of(r Resource) int64 {
	switch r {
	case Requests:
		return c.Requests
	case Tokens:
		return c.Tokens
	case Money:
		return c.Money
	case Parallel:
		return c.Parallel
	}
	return 0
}

// Minus returns the difference.
func (c Cost) Minus(d Cost) Cost {
	return Cost{c.Requests - d.Requests, c.Tokens - d.Tokens, c.Money - d.Money, c.Parallel - d.Parallel}
}

// A Limit bounds the usage of one resource within a window. Windows follow one another without a gap, in UTC. They begin
// at multiples of their length since the year 1: days at midnight, weeks on Monday.
type Limit struct {
	Resource Resource
	Amount   int64
	Window   time.Duration // 0 never ends
	Part     Part          // whose usage; without a key, a team and a user, that of the reservation's key
}

// Of returns whose usage a limit of a key bounds.
func (l Limit) Of(key string) Part {
	p := l.Part
	if p.Account() == "" {
		p.Key = key
	}
	return p
}

// MaxLimits bounds the limits of one key, one team or one user.
const MaxLimits = 16

// Start returns the beginning of the window at a time; zero for a window without an end.
func (l Limit) Start(now time.Time) time.Time {
	if l.Window == 0 {
		return time.Time{}
	}
	return now.Truncate(l.Window)
}

// Counter returns the name of a limit's counter at a time: it is constant within one window.
func (l Limit) Counter(now time.Time) string {
	b := append([]byte(l.Resource), ':')
	b = strconv.AppendInt(b, l.Window.Milliseconds(), 10)
	if l.Window != 0 {
		b = strconv.AppendInt(append(b, ':'), l.Start(now).UnixMilli(), 10)
	}
	if l.Part.Model != "" {
		b = append(append(b, '/'), l.Part.Model...)
	}
	return string(b)
}

// A LimitError says which limit a request exceeds.
type LimitError struct {
	Limit      Limit
	Used       int64         // with reservations
	RetryAfter time.Duration // until the window ends; 0 if it never does or is unknown
}

func (e *LimitError) Error() string {
	what, window := string(e.Limit.Resource), "in all"
	switch {
	case e.Limit.Resource == Parallel:
		what, window = "requests", "at the same time"
	case e.Limit.Window > 0:
		window = "per " + e.Limit.Window.String()
	}
	text := fmt.Sprintf("limit reached: %d %s %s", e.Limit.Amount, what, window)
	if p := e.Limit.Part; p.Team != "" {
		text += " of the team " + p.Team
	} else if p.Owner != "" {
		text += " of the user " + p.Owner
	}
	if m := e.Limit.Part.Model; m != "" {
		text += " for " + m
	}
	return text
}

// Beyond makes the error of a reached limit.
func Beyond(l Limit, used int64, now time.Time) *LimitError {
	e := &LimitError{Limit: l, Used: used}
	if l.Window > 0 {
		e.RetryAfter = l.Start(now).Add(l.Window).Sub(now)
	}
	return e
}

// A Lock is the exclusive use of a session by one turn, until its lease ends.
type Lock struct {
	Session string
	Holder  string // a unique name
	Lease   time.Duration
}

// A Reservation is a part of all limits that a request falls under, taken before the usage is known.
type Reservation struct {
	ID     string // unique
	Key    string
	Limits []Limit // at least one
	At     time.Time
	Cost   Cost
	Lease  time.Duration // it is released after that: its holder has died
	Used   []int64       // of each limit, with this reservation: Begin sets it
}

// A Coordinator orders the turns of a session, and counts keys' usage of their limits. The clocks of gateways that
// share one should agree.
type Coordinator interface {
	// Begin locks a session and makes a reservation, both or neither; nil leaves one of them out. It returns the
	// session's number of turns, or Unknown. The error is ErrBusy while another holder has the session. It is a
	// *LimitError for the first limit in the list that the cost exceeds. Begin is atomic. After any other error the
	// outcome is unknown: End should follow.
	Begin(ctx context.Context, l *Lock, r *Reservation) (turns int64, err error)
	// Extend restarts the lease of a lock. The error is ErrUnlocked if it had ended.
	Extend(ctx context.Context, l *Lock) error
	// End unlocks a session, with its new number of turns or Unknown. It replaces the reservation by the usage, in
	// the windows of the reservation. nil leaves one of them out. The error has ErrUnlocked if the lock has ended,
	// and ErrGone if the reservation has: then that part changes nothing.
	End(ctx context.Context, l *Lock, turns int64, r *Reservation, used Cost) error
	// Correct adds a difference to what a key has used, in the windows of a time, where limits still have counters for these.
	Correct(ctx context.Context, key string, limits []Limit, at time.Time, more Cost) error
	// Used returns the usage of each limit of a key, with reservations.
	Used(ctx context.Context, key string, limits []Limit, now time.Time) ([]int64, error)
	// Erase forgets how many turns the unlocked sessions of a user have, and what is used of the user's limits.
	Erase(ctx context.Context, user string) error
}

// IsOf reports whether a session is a user's. Its name has the key, the bot, the user and the history, escaped.
func IsOf(session, user string) bool {
	parts := strings.Split(session, "/")
	return len(parts) > 2 && parts[2] == url.QueryEscape(user)
}

// NewID returns a unique name that cannot be guessed. It begins with the time, in milliseconds, so that indexes grow
// at their end.
func NewID() string {
	b := strconv.AppendInt(make([]byte, 0, 36), time.Now().UnixMilli(), 36)
	b = strconv.AppendUint(b, rand.Uint64(), 36)
	return string(strconv.AppendUint(b, rand.Uint64(), 36))
}
