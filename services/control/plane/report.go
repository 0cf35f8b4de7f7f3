package plane

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"dyno/services/control/store"
)

// Prefixes of replicas' reports to each other: signs of life, overdue instances, and heartbeats of others' instances.
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

// overdueKey is the key of one part of a replica's set of overdue instances. It expires if the replica is gone for
// long.
func overdueKey(replica string, part int) string {
	return fmt.Sprintf("%s%s%s/%x", store.State, overduePrefix, replica, part)
}

// parseOverdueKey parses a key of overdueKey.
func parseOverdueKey(key string) (replica string, part int, ok bool) {
	const digits = "0123456789abcdef"
	rest, ok := cutKey(key, overduePrefix)
	replica, digit, cut := strings.Cut(rest, "/")
	part = strings.Index(digits, digit)
	return replica, part, ok && cut && len(digit) == 1 && part >= 0
}

// learnOfReplicas applies reports of replicas. p.mu is held.
func (p *Plane) learnOfReplicas(b store.Batch) {
	// A report after a pause may have been on its way for as long as the pause.
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
		// Heartbeats in a listing may have any age.
		if name, ok := cutKey(e.Key, heardPrefix); ok && !b.Listed && name != p.self {
			p.reported(decodeBeats(e.Value), now-late)
		}
	}
}

// delayShown is the least age of the catalog that shows a delay: below, the age comes from the pauses between checks.
const delayShown = time.Second

// reportPeriod is the pause between a replica's looks for reports to send. reportShare is the share of a lease after
// which a heartbeat is reported at the latest: it leaves enough of a lease of one second. No report is later than
// reportLatest.
const (
	reportPeriod = 250 * time.Millisecond
	reportShare  = 6
	reportLatest = 5 * time.Second
)

// report sends reports to other replicas, until the Plane ends. While the store refuses, its pauses grow.
func (p *Plane) report() {
	pause := reportPeriod
	for {
		select {
		case <-p.ctx.Done():
			return
		case <-time.After(pause):
		}
		if pause = min(2*pause, reportLatest); p.reportDue() == nil {
			pause = reportPeriod
		}
	}
}

// reportDue sends all reports that are due.
func (p *Plane) reportDue() error {
	p.reporting.Lock()
	defer p.reporting.Unlock()
	p.mu.Lock()
	now := p.now()
	late, beats := p.late, p.due(now)
	p.mu.Unlock()
	errs := []error{p.putMarks(p.ctx, p.self, late, true)}
	for len(beats) > 0 {
		some := make(map[string]beat, min(len(beats), maxReported))
		for path, b := range beats {
			if len(some) == maxReported {
				break
			}
			some[path] = b
		}
		if err := p.putKey(p.ctx, store.Op{Key: store.State + heardPrefix + p.self, Value: encodeBeats(some, p.now()), Expires: true}); err != nil {
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
	p.sendFailure.note(err, now)
	return err
}

// putMarks stores a replica's set of overdue instances, as far as it has changed.
func (p *Plane) putMarks(ctx context.Context, replica string, set markSet, expires bool) error {
	p.mu.Lock()
	var known markSet
	if now := p.silent[replica]; now != nil {
		known = *now
	}
	p.mu.Unlock()
	for part, marks := range set {
		if marks == known[part] {
			continue
		}
		if err := p.putKey(ctx, store.Op{Key: overdueKey(replica, part), Value: []byte(marks), Delete: marks == "", Expires: expires && marks != ""}); err != nil {
			return err // the others would fail, too
		}
		p.mu.Lock()
		p.setSilent(replica, part, marks) // learnOfReplicas sets it again
		p.mu.Unlock()
	}
	return nil
}

// maxReported bounds the heartbeats of one report.
const maxReported = 1 << 14

// A sendFailure says since when this replica cannot report to others, and why.
type sendFailure struct {
	since time.Duration
	err   error
}

func (u *sendFailure) note(err error, now time.Duration) {
	if u.err == nil {
		u.since = now
	}
	u.err = err
}

// why returns why heartbeats cannot be reported, if that has lasted: clients have to try the holder.
func (u *sendFailure) why(now time.Duration) error {
	if now-u.since < reportLatest {
		return nil
	}
	return u.err
}

// giveSigns gives signs of life to other replicas. It is independent of all other work.
func (p *Plane) giveSigns() {
	repeatSigns(p.ctx, func() error {
		value := timeNow().UTC().Format(time.RFC3339) + " " + p.sender
		_, err := p.store.Apply(p.ctx, store.Request{Then: []store.Op{{Key: p.signKey(), Value: []byte(value), Expires: true}}})
		if err != nil && !errors.Is(err, store.ErrBusy) {
			p.log.Debug("no sign of life to other replicas", "error", err)
			p.mu.Lock()
			p.pause(p.now()) // other replicas fail to give signs as well
			p.mu.Unlock()
		}
		return err
	})
}

// signKey is the key of this replica's signs of life.
func (p *Plane) signKey() string { return store.State + replicaPrefix + p.cfg.Replica }

// busyPause is the pause before a sign is tried again when the queue, shared with all changes, is full.
const busyPause = 20 * time.Millisecond

// repeatSigns gives a sign each signPeriod until ctx ends. It retries soon if the queue was full: other replicas take
// over the instances of a replica whose signs are missing.
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

// A duplicateReplica is another process that gives signs of life under this replica's name. Both claim the same
// instances, and each hears only some.
type duplicateReplica struct {
	own     string // sender of this process's signs
	ownSeen bool   // an own sign has been seen: signs after it come from a live process
	sender  string // sender of the last foreign sign since
	signs   int    // consecutive signs of that sender
	at      time.Duration
}

// duplicateSigns are how many signs show that there is a duplicate. A single one may be the last of the process that
// this one has replaced.
const duplicateSigns = 2

// see takes a sign under this replica's name; signs come in the order of revisions. It reports whether the sign shows
// a new duplicate.
func (d *duplicateReplica) see(sender string, now time.Duration) bool {
	switch {
	case sender == d.own:
		d.ownSeen = true
		return false
	case !d.ownSeen:
		return false // it was given before this process began
	case sender != d.sender || now-d.at > replicaTTL:
		d.sender, d.signs = sender, 0
	}
	d.at = now
	d.signs++
	return d.signs == duplicateSigns
}

// there reports whether there is a duplicate.
func (d *duplicateReplica) there(now time.Duration) bool {
	return d.signs >= duplicateSigns && now-d.at < replicaTTL
}

// detectDuplicateReplica looks for foreign signs of life under this replica's name.
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

// NameTaken reports whether another process gives signs of life under this replica's name.
func (p *Plane) NameTaken() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.duplicate.there(p.now())
}
