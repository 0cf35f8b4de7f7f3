//go:build !linux || portable

package poll

import "time"

// An Event says what happened to a socket: Fd is its token, and Pad its generation.
type Event struct {
	Events  uint32
	Fd, Pad int32
}

// A Poller is an array of descriptors; the system examines all of them in each wait. One thread uses
// it, except for Wake.
//
// A wait reports what can be read until it was read. It reports that a socket can be
// written to once for each AwaitOut.
type Poller struct {
	wakeable, wake int32         // what is written to the second can be read from the first
	fds            []descriptor  // the first is wakeable
	marks          []Event       // of each descriptor: what its events bear
	places         map[int32]int // where a descriptor is in fds
	events         []Event
}

// New returns a poller that waits for Wake alone.
func New() (*Poller, error) {
	p := &Poller{places: map[int32]int{}}
	var err error
	if p.wakeable, p.wake, err = newWake(); err != nil {
		return nil, err
	}
	p.add(p.wakeable, Event{Fd: WakeToken}, In)
	return p, nil
}

// Close closes the poller. Wakes must have ended.
func (p *Poller) Close() { closeWake(p.wakeable, p.wake) }

// Add registers a socket that connects. The token and the generation come back with its events; the
// generation distinguishes events of a closed socket from those of its successor.
func (p *Poller) Add(fd int, token int32, generation uint32) error {
	p.add(int32(fd), Event{Fd: token, Pad: int32(generation)}, In|Out|PeerEnded) //nolint:gosec // carried, not computed with
	return nil
}

func (p *Poller) add(fd int32, mark Event, events int16) {
	p.places[fd] = len(p.fds)
	p.fds = append(p.fds, descriptor{Fd: handle(fd), Events: events}) //nolint:unconvert // its type differs between systems
	p.marks = append(p.marks, mark)
}

// Remove forgets a socket that is about to be closed.
func (p *Poller) Remove(fd int32) {
	i, found := p.places[fd]
	if !found {
		return
	}
	last := len(p.fds) - 1
	p.fds[i], p.marks[i] = p.fds[last], p.marks[last]
	p.places[int32(p.fds[i].Fd)] = i //nolint:gosec,unconvert // it came as one
	p.fds, p.marks = p.fds[:last], p.marks[:last]
	delete(p.places, fd)
}

// AwaitOut asks for an event when a socket that took no more has room again.
func (p *Poller) AwaitOut(fd int32) {
	if i, found := p.places[fd]; found {
		p.fds[i].Events |= Out
	}
}

// IgnoreIn ends the arrival events of a socket whose reader has its own pace.
func (p *Poller) IgnoreIn(fd int32) {
	if i, found := p.places[fd]; found {
		p.fds[i].Events &^= In
	}
}

// Wake ends a wait, from any thread.
func (p *Poller) Wake() {
	_, _ = Write(p.wake, []byte{1}) // a full one already wakes
}

// Poll returns the events at hand without waiting.
func (p *Poller) Poll() []Event { return p.wait(0) }

// Full tells whether there may be more events than those that were returned.
func (p *Poller) Full([]Event) bool { return false }

// Wait returns the next events, or none when a time has come or a signal. From now it waits for whole milliseconds, and leaves
// the rest to the caller.
func (p *Poller) Wait(now, until int64) []Event {
	return p.wait(max(time.Duration(until-now)-late, 0) / time.Millisecond)
}

func (p *Poller) wait(ms time.Duration) []Event {
	p.events = p.events[:0]
	n := await(p.fds, ms)
	for i := 0; n > 0 && i < len(p.fds); i++ {
		d := &p.fds[i]
		if d.Revents == 0 {
			continue
		}
		n--
		if i == 0 {
			_, _ = Read(p.wakeable, make([]byte, 64)) // the next wait reports what is left
		}
		d.Events &^= d.Revents & Out
		event := p.marks[i]
		event.Events = uint32(uint16(d.Revents)) //nolint:gosec // bits
		p.events = append(p.events, event)
	}
	return p.events
}
