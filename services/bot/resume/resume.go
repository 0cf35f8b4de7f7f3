// Package resume keeps the events of streams for a while. A client that has lost its connection gets the missing
// events, and then new ones (Last-Event-ID; HTML standard, section 9.2). Reading begins under the lock for adding
// events: so between kept and new events none is missing or repeated.
//
// Bytes per stream, bytes in all, and time are bounded. A reader whose events are gone gets an error.
package resume

import (
	"bytes"
	"container/list"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// Why events cannot be read.
var (
	// ErrGone says that events are no longer kept, because there was no room, or because they are too old.
	ErrGone = errors.New("these events are not kept any more")
	// ErrAhead says that a stream has no event of that number yet.
	ErrAhead = errors.New("the stream has not come so far")
	// ErrReaders says that the stream has too many readers.
	ErrReaders = errors.New("too many clients read this stream")
)

// Config bounds a Keeper.
type Config struct {
	// StreamBytes bounds the events of one stream, of which the oldest go. Bytes bounds all streams, of which the
	// oldest goes: one of the key with the new event, if that key has more than an equal part.
	StreamBytes, Bytes int64
	// Age is for how long a stream is kept after its end.
	Age time.Duration
	// Readers bounds the simultaneous readers of one stream, without its first client.
	Readers int
}

// Defaults returns the Config that every field starts from.
func Defaults() Config {
	return Config{StreamBytes: 64 << 10, Bytes: 64 << 20, Age: time.Minute, Readers: 4}
}

// LeastBytes returns the least Bytes for a StreamBytes.
func LeastBytes(stream int64) int64 { return stream + overhead }

// overhead estimates the bytes of a stream without its events.
const overhead = 512

// An Owner is the owner of a stream.
type Owner struct{ Key, User string }

// A Keeper keeps streams. Its methods may be called from any goroutine. Its lock is taken before those of streams.
type Keeper struct {
	cfg   Config
	bytes atomic.Int64

	mu      sync.Mutex // guards what follows
	streams map[string]*list.Element
	order   *list.List // of *Stream, the oldest first
	keys    map[string]*key
	ended   *list.List  // of *Stream, by expiry
	timer   *time.Timer // removes expired streams; nil before the first end
	closed  bool
}

// A key has the kept streams of an API key. The keeper's lock guards order.
type key struct {
	bytes atomic.Int64
	order *list.List // of *Stream, the oldest first
}

// New returns a Keeper that keeps nothing yet.
func New(c Config) *Keeper {
	return &Keeper{cfg: c, streams: map[string]*list.Element{}, keys: map[string]*key{}, order: list.New(), ended: list.New()}
}

// Close forgets everything. Readers get ErrGone.
func (k *Keeper) Close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed = true
	if k.timer != nil {
		k.timer.Stop()
	}
	for k.order.Len() > 0 {
		k.remove(k.order.Front())
	}
}

// Stats describes the contents of a Keeper.
type Stats struct {
	Streams int
	Bytes   int64
}

// Stats reads it.
func (k *Keeper) Stats() Stats {
	k.mu.Lock()
	defer k.mu.Unlock()
	return Stats{k.order.Len(), k.bytes.Load()}
}

// A Presence is notified of readers that come and go during a stream, without a lock held.
type Presence interface {
	Came()
	Left()
}

// Begin begins a stream with a unique name. It must be ended.
func (k *Keeper) Begin(name string, o Owner, p Presence) *Stream {
	s := &Stream{keeper: k, name: name, owner: o, presence: p}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		s.gone = true
		return s
	}
	if s.of = k.keys[o.Key]; s.of == nil {
		s.of = &key{order: list.New()}
		k.keys[o.Key] = s.of
	}
	s.place, s.mine = k.order.PushBack(s), s.of.order.PushBack(s)
	k.streams[name] = s.place
	s.of.bytes.Add(overhead)
	k.bytes.Add(overhead)
	k.makeRoom(s.of)
	return s
}

// Find returns a kept stream, or nil.
func (k *Keeper) Find(name string) *Stream {
	k.mu.Lock()
	defer k.mu.Unlock()
	if e := k.streams[name]; e != nil {
		return e.Value.(*Stream)
	}
	return nil
}

// Erase forgets the streams of a user, of any key.
func (k *Keeper) Erase(user string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for e := k.order.Front(); e != nil; {
		next := e.Next()
		if e.Value.(*Stream).owner.User == user {
			k.remove(e)
		}
		e = next
	}
}

// makeRoom removes the oldest streams to make room for a key: its own, as long as it has more than an equal part. The
// caller holds mu.
func (k *Keeper) makeRoom(of *key) {
	for k.bytes.Load() > k.cfg.Bytes && k.order.Len() > 0 {
		oldest := k.order.Front()
		if own := of.order.Front(); own != nil && of.bytes.Load() > k.cfg.Bytes/int64(len(k.keys)) {
			oldest = own.Value.(*Stream).place
		}
		k.remove(oldest)
	}
}

// remove forgets a stream. The caller holds mu.
func (k *Keeper) remove(e *list.Element) {
	s := k.order.Remove(e).(*Stream)
	delete(k.streams, s.name)
	if s.end != nil {
		k.ended.Remove(s.end)
	}
	if s.of.order.Remove(s.mine); s.of.order.Len() == 0 {
		delete(k.keys, s.owner.Key)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	held := int64(len(s.text)) + overhead
	s.of.bytes.Add(-held)
	k.bytes.Add(-held)
	s.text, s.gone = nil, true
	s.wakeAll()
}

// expire removes expired streams, and sets the timer for the next ones.
func (k *Keeper) expire() {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	for k.ended.Len() > 0 {
		s := k.ended.Front().Value.(*Stream)
		if wait := s.until.Sub(now); wait > 0 {
			k.timer.Reset(wait)
			return
		}
		k.remove(s.place)
	}
}

// A Stream has the events of one answer. Add and End are for one goroutine.
type Stream struct {
	keeper   *Keeper
	name     string
	owner    Owner
	presence Presence
	of       *key // nil in a keeper that is closed

	// The keeper's lock guards these.
	place, mine, end *list.Element
	until            time.Time

	mu      sync.Mutex    // guards what follows
	text    []byte        // events, concatenated
	first   uint64        // how many were removed before those of text
	base    int64         // how many bytes were removed before text
	count   uint64        // events in all
	done    bool          // no more will come
	gone    bool          // nothing is kept
	wake    chan struct{} // closed at the next change; nil when nobody waits
	readers int
}

// Owner returns the owner.
func (s *Stream) Owner() Owner { return s.owner }

// wakeAll wakes all readers. The caller holds mu.
func (s *Stream) wakeAll() {
	if s.wake != nil {
		close(s.wake)
		s.wake = nil
	}
}

// separator ends an event, and never occurs within one.
var separator = []byte("\n\n")

// Add adds the next event: lines, and an empty line. Events are numbered from 1.
func (s *Stream) Add(event []byte) {
	s.mu.Lock()
	s.count++
	if s.gone {
		s.mu.Unlock()
		return
	}
	before := len(s.text)
	s.shorten(int64(len(event)))
	if int64(len(event)) <= s.keeper.cfg.StreamBytes {
		s.text = append(s.text, event...)
	} else {
		s.drop(len(s.text), s.count)
		s.base += int64(len(event))
	}
	grown := int64(len(s.text) - before)
	s.wakeAll()
	s.mu.Unlock()
	// If the stream was removed meanwhile, all of its text was subtracted, with the part that is added here.
	s.of.bytes.Add(grown)
	if k := s.keeper; k.bytes.Add(grown) > k.cfg.Bytes {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.makeRoom(s.of)
	}
}

// shorten removes events until there is room for more bytes: half of them, so that it is not needed for every event.
// The caller holds mu.
func (s *Stream) shorten(more int64) {
	most := s.keeper.cfg.StreamBytes
	if int64(len(s.text))+more <= most {
		return
	}
	cut, events := 0, uint64(0)
	for cut < len(s.text) && (int64(len(s.text)-cut)+more > most || cut < len(s.text)/2) {
		cut += bytes.Index(s.text[cut:], separator) + len(separator)
		events++
	}
	s.drop(cut, s.first+events)
}

// drop removes the first bytes, up to an event. The caller holds mu.
func (s *Stream) drop(cut int, first uint64) {
	s.base += int64(cut)
	s.text = append(s.text[:0], s.text[cut:]...)
	s.first = first
}

// End ends the stream, which is kept for some time.
func (s *Stream) End() {
	k := s.keeper
	k.mu.Lock()
	defer k.mu.Unlock()
	s.mu.Lock()
	s.done = true
	s.wakeAll()
	gone := s.gone
	s.mu.Unlock()
	if gone || s.end != nil {
		return
	}
	s.until = time.Now().Add(k.cfg.Age)
	s.end = k.ended.PushBack(s)
	if k.timer == nil {
		k.timer = time.AfterFunc(k.cfg.Age, k.expire)
	} else if k.ended.Len() == 1 {
		k.timer.Reset(k.cfg.Age)
	}
}

// A Reader reads a stream from some event on. It is for one goroutine, and must be
// closed.
type Reader struct {
	s      *Stream
	at     int64 // in the stream's bytes
	closed bool
	live   bool // the presence was notified of it
}

// Read begins to read after an event; 0 is the beginning. The error is ErrGone, ErrAhead or ErrReaders.
func (s *Stream) Read(after uint64) (*Reader, error) {
	s.mu.Lock()
	at := 0
	switch {
	case s.gone || after < s.first:
		s.mu.Unlock()
		return nil, ErrGone
	case after > s.count:
		s.mu.Unlock()
		return nil, ErrAhead
	case s.readers >= s.keeper.cfg.Readers:
		s.mu.Unlock()
		return nil, ErrReaders
	}
	for n := s.first; n < after; n++ {
		at += bytes.Index(s.text[at:], separator) + len(separator)
	}
	r := &Reader{s: s, at: s.base + int64(at), live: !s.done && s.presence != nil}
	s.readers++
	s.mu.Unlock()
	if r.live {
		s.presence.Came()
	}
	return r, nil
}

// Finished reports whether the stream has ended and all of it was read.
func (r *Reader) Finished() bool {
	s := r.s
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.done && !s.gone && r.at == s.base+int64(len(s.text))
}

// Next appends unread events to b, whole ones, and waits while there are none. At the end of the stream more is
// false. The error is ErrGone, or ctx's.
func (r *Reader) Next(ctx context.Context, b []byte) (_ []byte, more bool, err error) {
	s := r.s
	for {
		s.mu.Lock()
		switch {
		case s.gone || r.at < s.base:
			s.mu.Unlock()
			return b, false, ErrGone
		case r.at < s.base+int64(len(s.text)):
			b = append(b, s.text[r.at-s.base:]...)
			r.at = s.base + int64(len(s.text))
			more := !s.done
			s.mu.Unlock()
			return b, more, nil
		case s.done:
			s.mu.Unlock()
			return b, false, nil
		}
		if s.wake == nil {
			s.wake = make(chan struct{})
		}
		wake := s.wake
		s.mu.Unlock()
		select {
		case <-wake:
		case <-ctx.Done():
			return b, false, ctx.Err()
		}
	}
}

// Close ends the reading.
func (r *Reader) Close() {
	if r.closed {
		return
	}
	r.closed = true
	r.s.mu.Lock()
	r.s.readers--
	r.s.mu.Unlock()
	if r.live {
		r.s.presence.Left()
	}
}
