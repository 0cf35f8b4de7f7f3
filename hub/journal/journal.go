// Package journal is the one ordered, bounded log of an event hub. Every subscriber,
// however it is served, is a cursor into it: a sequence number up to which it has been
// given everything. History and live events are the same list, so no event can be lost
// between them. A subscriber's queue is the distance from its cursor to the head, so no
// event is kept twice.
//
// A reader gets the entries after its cursor with Since, and waits for more with Notify.
// If the bounds have removed entries before the reader came, this is never hidden: Since
// returns the number of the oldest entry there is.
package journal

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"
)

// An Update is what a publisher sends.
type Update struct {
	// ID is the event's ID; the journal makes one if it is empty. CheckID says which IDs a
	// publisher may choose. Two updates should not have the same ID: see Seek.
	ID string
	// Topics are what the update is about. There is at least one: the first is canonical,
	// the others are alternates.
	Topics []string
	// Private updates are only for subscribers that may read one of their topics.
	Private bool
	// Type is the event's type; "" is the default, "message". It has no CR or LF.
	Type string
	// Data is UTF-8; CR, LF and CRLF separate lines. The journal keeps no reference
	// to it.
	Data []byte
	// Retry tells subscribers how long to wait before they reconnect, in whole
	// milliseconds; 0 tells them nothing.
	Retry time.Duration
}

// An Entry is an update in the journal. It never changes, so any number of readers can
// share it.
type Entry struct {
	Update
	Seq   uint64    // its place, from 1, without gaps
	At    time.Time // when it was appended
	Frame []byte    // its event-stream encoding, made once
	Total uint64    // bytes of all frames up to and including this one
}

// Config says what a journal holds. If a bound is exceeded, the oldest entries are
// removed. Start from Defaults. The caller checks its bounds.
type Config struct {
	Events int           // entries
	Bytes  int64         // memory that the entries take, approximately
	Age    time.Duration // of an entry; 0 is no bound
	// Epoch is part of every ID that the journal makes. It must change whenever sequence numbers restart. Otherwise
	// an old ID could be taken for a current one. It has 1 to 32 letters and digits; "" makes a random one.
	Epoch string
	// Head is the last sequence number that an earlier journal with the same epoch has
	// used.
	Head uint64
}

// maxEpoch is the length of the longest epoch.
const maxEpoch = 32

// Defaults returns a Config with every default.
func Defaults() Config {
	return Config{Events: 10_000, Bytes: 64 << 20}
}

func notAlphanumeric(r rune) bool {
	return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
}

// A Journal may be used by any number of readers and writers. Readers take no lock and
// never wait for a writer.
type Journal struct {
	cfg    Config
	prefix string // of the IDs it makes

	// ring holds the entry with sequence number s in place s mod its length. A place
	// whose number is not between oldest and head holds nil or another entry: a reader
	// checks Seq.
	ring   []atomic.Pointer[Entry]
	mask   uint64
	head   atomic.Uint64 // the newest entry's number
	oldest atomic.Uint64 // of the oldest entry there is; head+1 if there is none
	total  atomic.Uint64 // bytes of all frames ever appended

	mu       sync.Mutex        // guards the following fields, and writing to those above
	held     int64             // bytes of the present entries
	ids      map[string]uint64 // IDs that publishers chose, of present entries
	watchers []*watcher        // replaced as a whole, never changed in place
}

type watcher struct{ fn func() }

// New returns an empty journal, unless the epoch is none.
func New(c Config) (*Journal, error) {
	if len(c.Epoch) > maxEpoch || strings.ContainsFunc(c.Epoch, notAlphanumeric) {
		return nil, fmt.Errorf("journal: epoch: %q: must be up to %d letters and digits", c.Epoch, maxEpoch)
	}
	if c.Epoch == "" {
		c.Epoch = strconv.FormatUint(rand.Uint64(), 36)
	}
	size := 1
	for size < c.Events {
		size <<= 1
	}
	j := &Journal{
		cfg: c, prefix: Scheme + c.Epoch + "-", ids: map[string]uint64{},
		ring: make([]atomic.Pointer[Entry], size), mask: uint64(size - 1),
	}
	j.head.Store(c.Head)
	j.oldest.Store(c.Head + 1)
	return j, nil
}

// Scheme begins every ID that a hub makes: the Mercure protocol requires an IRI.
const Scheme = "dyno:"

// Epoch is the part of IDs that distinguishes this journal from others.
func (j *Journal) Epoch() string { return j.cfg.Epoch }

// Earliest is the ID with which a subscriber asks for the whole history (Mercure protocol).
const Earliest = "earliest"

// maxID is the length in bytes of the longest ID that a publisher may choose.
const maxID = 1 << 10

// CheckID returns why a publisher may not choose an ID. A subscriber gives the ID of its last event back as a header
// field, which decides what it gets next. So an ID must be possible in such a field, come back as it was, and be no
// hub's: a publisher could otherwise make another topic's subscribers lose events, or get the whole history again.
func CheckID(id string) error {
	switch {
	case len(id) > maxID:
		return fmt.Errorf("id: %d bytes: must be %d at most", len(id), maxID)
	case !utf8.ValidString(id):
		return fmt.Errorf("id: %q: must be UTF-8", id)
	case strings.ContainsFunc(id, isControl):
		return fmt.Errorf("id: %q: must not contain control characters", id)
	case strings.Trim(id, " ") != id:
		return fmt.Errorf("id: %q: must not begin or end with a space", id)
	case strings.HasPrefix(id, "#"):
		return fmt.Errorf("id: %q: must not begin with #", id) // the Mercure protocol forbids it
	case id == Earliest:
		return fmt.Errorf("id: %q: is reserved: with it subscribers ask for the whole history", id)
	case strings.HasPrefix(id, Scheme):
		return fmt.Errorf("id: %q: must not begin with %s, as the IDs that the hub makes do", id, Scheme)
	}
	return nil
}

// isControl reports whether net/http refuses header fields with this character, or changes it.
func isControl(r rune) bool { return r < ' ' || r == 0x7f }

// ErrUpdate is wrapped by every error of Append: the update itself is at fault.
var ErrUpdate = errors.New("unusable update")

// Check says what is wrong with an update, for any journal.
func (u *Update) Check() error {
	fault := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", ErrUpdate, fmt.Sprintf(format, args...))
	}
	switch {
	case len(u.Topics) == 0:
		return fault("topic: must be given")
	case strings.ContainsAny(u.Type, "\r\n"):
		return fault("type: %q: must not contain CR or LF", u.Type)
	case u.Retry < 0 || u.Retry%time.Millisecond != 0:
		return fault("retry: %v: must be 0 or more, in whole milliseconds", u.Retry)
	case !utf8.Valid(u.Data):
		return fault("data: must be UTF-8")
	case !utf8.ValidString(u.Type):
		return fault("type: must be UTF-8")
	}
	if err := CheckID(u.ID); err != nil {
		return fault("%v", err)
	}
	for _, t := range u.Topics {
		if t == "" || !utf8.ValidString(t) {
			return fault("topic: %q: must be UTF-8 and not empty", t)
		}
	}
	return nil
}

// Check says why Append would refuse u.
func (j *Journal) Check(u *Update) error {
	if err := u.Check(); err != nil {
		return err
	}
	if n := u.bound(); n > j.cfg.Bytes {
		return fmt.Errorf("%w: it may take %d bytes, and the whole history has %d", ErrUpdate, n, j.cfg.Bytes)
	}
	return nil
}

// Append adds u after all entries, removes entries that exceed the bounds, and then calls
// the functions given to Notify. Every error wraps ErrUpdate.
func (j *Journal) Append(u Update) (*Entry, error) { return j.AppendAt(time.Now(), u) }

// AppendAs is Append with an ID for updates whose publisher has chosen none. Logs that several hubs
// share number their updates themselves.
func (j *Journal) AppendAs(id string, u Update) (*Entry, error) { return j.append(time.Now(), id, u) }

// AppendAt is Append for an update from an earlier time, such as one read back from a file. The times of successive
// calls must not decrease.
func (j *Journal) AppendAt(at time.Time, u Update) (*Entry, error) { return j.append(at, "", u) }

func (j *Journal) append(at time.Time, id string, u Update) (*Entry, error) {
	if err := j.Check(&u); err != nil {
		return nil, err
	}
	if u.ID == "" {
		u.ID = id
	}
	e := &Entry{Update: u, At: at}
	j.mu.Lock()
	e.Seq = j.head.Load() + 1
	given := u.ID != ""
	if !given {
		e.ID = j.prefix + strconv.FormatUint(e.Seq, 10)
	}
	e.encode()
	e.Total = j.total.Load() + uint64(len(e.Frame))
	if _, known := j.ids[e.ID]; given && !known {
		j.ids[e.ID] = e.Seq
	}
	j.held += e.size()
	// Make room first: a place is overwritten only after oldest says that its entry is
	// gone.
	j.trim(e.Seq, at)
	j.ring[e.Seq&j.mask].Store(e)
	j.total.Store(e.Total)
	j.head.Store(e.Seq)
	watchers := j.watchers
	j.mu.Unlock()
	for _, w := range watchers {
		w.fn()
	}
	return e, nil
}

// trim removes entries that exceed the bounds. newest is the number of the entry that
// must stay; it may not be in the ring yet. The caller holds mu.
func (j *Journal) trim(newest uint64, now time.Time) {
	for s := j.oldest.Load(); s < newest; s++ {
		e := j.ring[s&j.mask].Load()
		old := j.cfg.Age > 0 && now.Sub(e.At) > j.cfg.Age
		if newest-s < uint64(j.cfg.Events) && j.held <= j.cfg.Bytes && !old {
			return
		}
		j.remove(e)
	}
}

// remove removes the oldest entry. The caller holds mu.
func (j *Journal) remove(e *Entry) {
	j.oldest.Store(e.Seq + 1)
	j.ring[e.Seq&j.mask].Store(nil)
	j.held -= e.size()
	if j.ids[e.ID] == e.Seq {
		delete(j.ids, e.ID)
	}
}

// Expire removes entries that are older than the configured age. Append does so too; this
// is for times without appends.
func (j *Journal) Expire(now time.Time) {
	if j.cfg.Age == 0 {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for s, head := j.oldest.Load(), j.head.Load(); s <= head; s++ {
		e := j.ring[s&j.mask].Load()
		if now.Sub(e.At) <= j.cfg.Age {
			return
		}
		j.remove(e)
	}
}

// Break records that updates were lost before they reached the journal. It removes all
// entries and skips a sequence number, so that every reader learns of a gap, whatever its
// cursor. It calls the functions given to Notify.
func (j *Journal) Break() {
	j.mu.Lock()
	head := j.head.Load()
	for s := j.oldest.Load(); s <= head; s++ {
		j.remove(j.ring[s&j.mask].Load())
	}
	// Head comes last: a reader that sees the new head must also see that the entries are
	// gone.
	j.oldest.Store(head + 2)
	j.head.Store(head + 1)
	watchers := j.watchers
	j.mu.Unlock()
	for _, w := range watchers {
		w.fn()
	}
}

// Since appends up to limit entries after seq to dst, in order and without gaps, and returns it. If oldest is
// more than seq+1, the entries before oldest are lost. The returned entries then begin with oldest. A seq beyond
// the head yields nothing. Since allocates only if dst is too small.
func (j *Journal) Since(seq uint64, dst []*Entry, limit int) (entries []*Entry, oldest uint64) {
	for {
		head := j.head.Load()
		oldest = j.oldest.Load()
		next := max(seq+1, oldest)
		entries = dst
		for ; next <= head && len(entries)-len(dst) < limit; next++ {
			e := j.ring[next&j.mask].Load()
			if e == nil || e.Seq != next {
				break // it was removed meanwhile
			}
			entries = append(entries, e)
		}
		if next > head || len(entries) > len(dst) || limit <= 0 {
			return entries, oldest
		}
	}
}

// Seek returns the cursor of a reader whose last event had this ID, and whether the ID is known. An ID that this
// journal made is known even if its entry is gone; Since then says what is missing. An ID that a publisher chose is
// known while its entry is there. Of several entries with one ID, the oldest counts: repeated events are better than
// lost ones.
func (j *Journal) Seek(id string) (seq uint64, found bool) {
	j.mu.Lock()
	seq, found = j.ids[id]
	j.mu.Unlock()
	if found {
		return seq, true
	}
	digits, ours := strings.CutPrefix(id, j.prefix)
	if !ours || strings.HasPrefix(digits, "0") {
		return 0, false
	}
	seq, err := strconv.ParseUint(digits, 10, 64)
	if err != nil || seq > j.head.Load() {
		return 0, false
	}
	return seq, true
}

// Head is the newest entry's sequence number; 0 before the first.
func (j *Journal) Head() uint64 { return j.head.Load() }

// Oldest is the sequence number of the oldest entry there is, or Head plus one if there
// is none.
func (j *Journal) Oldest() uint64 { return j.oldest.Load() }

// Total is the bytes of all frames ever appended. The bytes that a reader has not been
// given are Total minus the Total of its last entry.
func (j *Journal) Total() uint64 { return j.total.Load() }

// Notify makes every Append and Break call fn, on the writer's goroutine, and possibly on several at once. The new
// entries can be read by then. fn must not block. After stop, fn is not called for later entries.
func (j *Journal) Notify(fn func()) (stop func()) {
	w := &watcher{fn}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.watchers = append(j.watchers[:len(j.watchers):len(j.watchers)], w)
	return func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		var rest []*watcher
		for _, other := range j.watchers {
			if other != w {
				rest = append(rest, other)
			}
		}
		j.watchers = rest
	}
}
