package plane

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"dyno/services/control/store"
)

// Where replicas tell each other of themselves: signs of life, which of their instances are overdue, and which
// heartbeats of others' instances they heard.
const (
	replicaPrefix = "replica/"
	overduePrefix = "overdue/"
	heardPrefix   = "heard/"
)

// cutKey takes the name of a replica out of a key.
func cutKey(key, prefix string) (name string, ok bool) {
	return strings.CutPrefix(key, store.State+prefix)
}

func isOfReplicas(key string) bool {
	for _, prefix := range []string{replicaPrefix, overduePrefix, heardPrefix} {
		if _, ok := cutKey(key, prefix); ok {
			return true
		}
	}
	return false
}

// overdueKey is where the store has a part of those of a replica's instances that are overdue. It expires with a
// replica that is gone for long.
func overdueKey(replica string, part int) string {
	return fmt.Sprintf("%s%s%s/%x", store.State, overduePrefix, replica, part)
}

// parseOverdueKey reads what overdueKey wrote.
func parseOverdueKey(key string) (replica string, part int, ok bool) {
	const digits = "0123456789abcdef"
	rest, ok := cutKey(key, overduePrefix)
	replica, digit, cut := strings.Cut(rest, "/")
	part = strings.Index(digits, digit)
	return replica, part, ok && cut && len(digit) == 1 && part >= 0
}

// learnOfReplicas takes what replicas tell. p.mu is held.
func (p *Plane) learnOfReplicas(b store.Batch) {
	// What comes after a pause may have been on its way for as long as the pause.
	late := p.Age()
	if late < delayShown {
		late = 0
	}
	now := p.now()
	for _, e := range b.Events {
		if name, ok := cutKey(e.Key, replicaPrefix); ok && !e.Removed && name != p.self {
			p.sign(name, now)
		}
		if name, part, ok := parseOverdueKey(e.Key); ok && len(e.Value)%markBytes == 0 {
			p.setSilent(name, part, string(e.Value))
		}
		// What a list has is of any age.
		if name, ok := cutKey(e.Key, heardPrefix); ok && !b.Listed && name != p.self {
			p.told(decodeBeats(e.Value), now-late)
		}
	}
}

// delayShown is the least age of what this replica knows that shows a delay: below, it is that of asking now and then.
const delayShown = time.Second

// tellPeriod is how often a replica looks for what to tell others, and tellShare the share of a lease after which a heartbeat
// is told at the latest. So a lease of a second has enough left.
const (
	tellPeriod = 250 * time.Millisecond
	tellShare  = 6
)

// tell tells other replicas what they have to know, until the Plane ends. Where the store refuses, it waits longer each
// time.
func (p *Plane) tell() {
	pause := tellPeriod
	for {
		select {
		case <-p.ctx.Done():
			return
		case <-time.After(pause):
		}
		if pause = min(2*pause, signPeriod); p.tellOthers() == nil {
			pause = tellPeriod
		}
	}
}

// tellOthers tells what is due.
func (p *Plane) tellOthers() error {
	p.telling.Lock()
	defer p.telling.Unlock()
	p.mu.Lock()
	now := p.now()
	late, beats := p.late, p.due(now)
	var known markSet
	if set := p.silent[p.self]; set != nil {
		known = *set
	}
	p.mu.Unlock()
	put := func(op store.Op) error {
		op.Expires = !op.Delete
		_, err := p.store.Apply(p.ctx, store.Request{Then: []store.Op{op}})
		return err
	}
	var errs []error
	for part, marks := range late {
		if marks == known[part] {
			continue
		}
		err := put(store.Op{Key: overdueKey(p.self, part), Value: []byte(marks), Delete: marks == ""})
		if err != nil {
			errs = append(errs, err)
			break // the others would fail, too
		}
		p.mu.Lock()
		p.setSilent(p.self, part, marks) // and again, when it is learnt
		p.mu.Unlock()
	}
	for len(beats) > 0 {
		some := make(map[string]beat, min(len(beats), maxTold))
		for path, b := range beats {
			if len(some) == maxTold {
				break
			}
			some[path] = b
		}
		if err := put(store.Op{Key: store.State + heardPrefix + p.self, Value: encodeBeats(some, p.now())}); err != nil {
			errs = append(errs, err)
			break
		}
		for path := range some {
			delete(beats, path)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keep(beats)
	err := errors.Join(errs...)
	p.untold.note(err, now)
	return err
}

// maxTold is how many heartbeats one change of the store tells.
const maxTold = 1 << 14

// untold says since when this replica cannot tell others anything, and why.
type untold struct {
	since time.Duration
	err   error
}

func (u *untold) note(err error, now time.Duration) {
	if u.err == nil {
		u.since = now
	}
	u.err = err
}

// why returns why heartbeats cannot be told, if that has lasted: clients have to try the holder.
func (u *untold) why(now time.Duration) error {
	if now-u.since < signPeriod {
		return nil
	}
	return u.err
}

// giveSigns gives signs of life to other replicas, whatever else this one is at.
func (p *Plane) giveSigns() {
	repeatSigns(p.ctx, func() error {
		value := timeNow().UTC().Format(time.RFC3339) + " " + p.sender
		_, err := p.store.Apply(p.ctx, store.Request{Then: []store.Op{{Key: p.signKey(), Value: []byte(value), Expires: true}}})
		if err != nil && !errors.Is(err, store.ErrBusy) {
			p.log.Debug("no sign of life to other replicas", "error", err)
			p.mu.Lock()
			p.pause(p.now()) // others can give none either
			p.mu.Unlock()
		}
		return err
	})
}

// signKey is where this replica gives signs of life.
func (p *Plane) signKey() string { return store.State + replicaPrefix + p.cfg.Replica }

// busyPause is for how long a sign waits for room in the queue, which it shares with all changes.
const busyPause = 20 * time.Millisecond

// repeatSigns gives one each signPeriod until ctx ends, and tries again soon where the queue was
// full: others take over the instances of a replica whose signs are missing.
func repeatSigns(ctx context.Context, give func() error) {
	ticker := time.NewTicker(signPeriod)
	defer ticker.Stop()
	for {
		var again <-chan time.Time
		if err := give(); errors.Is(err, store.ErrBusy) {
			again = time.After(busyPause)
		}
		select {
		case <-ctx.Done():
			return
		case <-again:
		case <-ticker.C:
		}
	}
}

// A duplicateReplica is another process that gives signs of life under this replica's name. Each of the two
// takes the instances for its own, and hears only some.
type duplicateReplica struct {
	own    string // sender of this process's signs
	begun  bool   // one of them has been seen: what comes after it is of a process that lives
	sender string // of the last sign by somebody else since
	signs  int    // of that sender, without one of another between
	at     time.Duration
}

// duplicateSigns are how many signs show that there is a duplicate. One may be the last of a process that
// this one has replaced.
const duplicateSigns = 2

// see takes a sign under this replica's name, in the order of revisions, and tells whether it
// shows a duplicate that had not been shown.
func (d *duplicateReplica) see(sender string, now time.Duration) bool {
	switch {
	case sender == d.own:
		d.begun = true
		return false
	case !d.begun:
		return false // it was given before this process began
	case sender != d.sender || now-d.at > replicaTTL:
		d.sender, d.signs = sender, 0
	}
	d.at = now
	d.signs++
	return d.signs == duplicateSigns
}

// there tells whether there is a duplicate.
func (d *duplicateReplica) there(now time.Duration) bool {
	return d.signs >= duplicateSigns && now-d.at < replicaTTL
}

// detectDuplicateReplica looks for signs of life under this replica's name that are not its own.
func (p *Plane) detectDuplicateReplica(events []store.Event) {
	key := p.signKey()
	for _, e := range events {
		if e.Key != key || e.Removed {
			continue
		}
		_, sender, _ := strings.Cut(string(e.Value), " ")
		p.mu.Lock()
		shown := p.duplicate.see(sender, p.now())
		p.mu.Unlock()
		if shown {
			p.log.Error("another process is a replica of this name, and instances are lost: each replica must have a name of its own (--replica)", "replica", p.cfg.Replica)
		}
	}
}

// NameTaken tells whether another process gives signs of life under this replica's name.
func (p *Plane) NameTaken() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.duplicate.there(p.now())
}
