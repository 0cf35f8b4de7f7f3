package plane

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dyno/services/control/catalog"
	"dyno/services/control/push"
	"dyno/services/control/resource"
	"dyno/services/control/store"
)

// fed returns a plane that follows nothing: the test is what feeds it.
func fed(log *slog.Logger) *Plane {
	c := Defaults()
	p := &Plane{
		cfg: c, log: log, catalog: catalog.New(), hub: push.NewHub(c.QueueChanges, c.RecentChanges), ledger: push.NewLedger(c.LedgerHoldings, c.LedgerKeep), started: time.Now(), sender: "me",
		presence: newPresence(c.Replica, c.Liveness), metrics: newMetrics(),
	}
	p.epoch.Store(new(string))
	p.duplicate.own = p.sender
	return p
}

// event is that a policy was put.
func event(name string, revision int64) store.Event {
	body := fmt.Sprintf(`{"namespace":"default","name":%q,"rules":[]}`, name)
	return store.Event{KV: store.KV{Key: store.State + policy(name).Ref().Path(), Value: resource.EncodeVersioned(1, []byte(body)), Revision: revision}}
}

var everyPolicy = []push.Topic{{Kind: resource.Policies}}

// TestListedBatch: missed changes get the revision of the listing, so that no token lies in between. They also have
// the resources' own revisions.
func TestListedBatch(t *testing.T) {
	p := fed(slog.New(slog.DiscardHandler))
	defer p.hub.Close()
	p.take(store.Batch{Events: []store.Event{event("gone", 90)}, Revision: 100, Listed: true, Epoch: "e"})
	sub, err := p.hub.Subscribe(everyPolicy, 100)
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	removal := event("gone", 150)
	removal.Removed, removal.Value = true, nil
	p.take(store.Batch{Events: []store.Event{event("a", 110), event("b", 120), removal}, Revision: 150, Listed: true, Epoch: "e"})
	changes, resync, err := sub.Next(t.Context(), 1)
	var got []string
	for _, c := range changes {
		got = append(got, fmt.Sprintf("%s %d %d %v", c.Name, c.Revision, c.Changed, c.Removed))
	}
	if want := []string{"a 150 110 false", "b 150 120 false", "gone 150 150 true"}; err != nil || resync || !slices.Equal(got, want) {
		t.Errorf("told %q, resync %v, %v; want %q", got, resync, err, want)
	}
	if item := p.catalog.Get(policy("a").Ref()); item.Revision != 110 {
		t.Errorf("a is of revision %d", item.Revision)
	}
	if token := p.Token(150); token != (Token{Epoch: "e", Revision: 150}) {
		t.Errorf("token %v", token)
	}
}

// TestNewEpoch: when the store was restored to an earlier state, watches read everything, and
// their tokens are of the new epoch.
func TestNewEpoch(t *testing.T) {
	p := fed(slog.New(slog.DiscardHandler))
	defer p.hub.Close()
	p.take(store.Batch{Events: []store.Event{event("a", 90), event("lost", 95)}, Revision: 100, Listed: true, Epoch: "old"})
	w := &Watch{plane: p, scope: catalog.Scope{Prefixes: []string{prefix(everyPolicy[0])}}, epoch: "old"}
	var err error
	if w.sub, err = p.hub.Subscribe(everyPolicy, 100); err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	removal := event("lost", 80)
	removal.Removed, removal.Value = true, nil
	_, moved := p.catalog.Revision()
	p.take(store.Batch{Events: []store.Event{event("a", 70), removal}, Revision: 80, Listed: true, Epoch: "new"})
	changes, revision, resync, err := w.Next(t.Context(), 10)
	if err != nil || !resync || revision != 80 || len(changes) != 1 || changes[0].Revision != 70 {
		t.Errorf("%+v as of %d, resync %v, %v", changes, revision, resync, err)
	}
	if got := w.Token(revision).String(); got != "new-80" {
		t.Errorf("token %s", got)
	}
	select {
	case <-moved:
	default:
		t.Error("who waits for the catalog is not woken")
	}
	p.take(store.Batch{Events: []store.Event{event("b", 81)}, Revision: 81})
	if changes, _, resync, err := w.Next(t.Context(), 10); err != nil || resync || len(changes) != 1 || changes[0].Name != "b" {
		t.Errorf("then %+v, resync %v, %v", changes, resync, err)
	}
}

// TestRolloutGoneBack: versions of a store that was restored to an earlier state are lower than those
// that clients ran before. Their answers count again.
func TestRolloutGoneBack(t *testing.T) {
	for _, epoch := range []string{"new", "old"} { // a backup that was restored, or an etcd that has lost changes
		p := fed(slog.New(slog.DiscardHandler))
		defer p.hub.Close()
		sealed := func(version, revision int64) store.Event {
			e := event("a", revision)
			_, body, err := resource.DecodeVersioned(e.Value)
			if err != nil {
				t.Fatal(err)
			}
			e.Value = resource.EncodeVersioned(version, body)
			return e
		}
		r := policy("a").Ref()
		p.ledger.Enter("one")
		run := func(version int64) error {
			p.ledger.Sent("one", &push.Change{Ref: r, Version: version}, time.Time{})
			_, errs := p.ack(t.Context(), "one", []resource.Ack{{Ref: r, Version: version, State: resource.Applied}})
			return errs[0]
		}
		p.take(store.Batch{Events: []store.Event{sealed(9, 90)}, Revision: 100, Listed: true, Epoch: "old"})
		if err := run(9); err != nil {
			t.Fatal(err)
		}
		p.take(store.Batch{Events: []store.Event{sealed(7, 70)}, Revision: 80, Listed: true, Epoch: epoch})
		if got := p.ledger.Rollout(r, 7, 1); got.Clients != 0 {
			t.Errorf("what clients ran before is held: %+v", got)
		}
		if err := run(7); err != nil {
			t.Fatal(err)
		}
		if got := p.ledger.Rollout(r, 7, 1); got.Applied != 1 || got.Pending != 0 {
			t.Errorf("%+v", got)
		}
	}
}

// TestDuplicateReplica: another process with this name is noticed by its signs of life, unless it is the replaced
// predecessor.
func TestDuplicateReplica(t *testing.T) {
	type sign struct {
		sender string
		after  time.Duration
	}
	const s = time.Second
	for name, c := range map[string]struct {
		signs   []sign
		shown   int
		there   bool
		forgets time.Duration // until it is not there any more; 0 is now
	}{
		"alone":        {[]sign{{"me", 0}, {"me", 5 * s}, {"me", 5 * s}}, 0, false, 0},
		"a restart":    {[]sign{{"before", 0}, {"before", 5 * s}, {"before", 5 * s}, {"me", s}, {"me", 5 * s}}, 0, false, 0},
		"a late sign":  {[]sign{{"before", 0}, {"me", s}, {"before", s}, {"me", 5 * s}}, 0, false, 0},
		"two":          {[]sign{{"me", 0}, {"other", s}, {"me", 4 * s}, {"other", s}, {"me", 4 * s}, {"other", s}}, 1, true, replicaTTL},
		"of no sender": {[]sign{{"me", 0}, {"", s}, {"me", 4 * s}, {"", s}}, 1, true, replicaTTL},
		"long ago":     {[]sign{{"me", 0}, {"other", s}, {"other", 2 * replicaTTL}}, 0, false, 0},
		"it restarts":  {[]sign{{"me", 0}, {"other", s}, {"another", s}}, 0, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log strings.Builder
				p := fed(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelError})))
				defer p.hub.Close()
				for i, sign := range c.signs {
					time.Sleep(sign.after)
					value := strings.TrimSuffix(timeNow().UTC().Format(time.RFC3339)+" "+sign.sender, " ")
					p.take(store.Batch{Events: []store.Event{{KV: store.KV{Key: p.signKey(), Value: []byte(value), Revision: int64(i + 1)}}}, Revision: int64(i + 1)})
				}
				if shown := strings.Count(log.String(), "another process"); shown != c.shown || p.NameTaken() != c.there {
					t.Errorf("logged %d times, there %v", shown, p.NameTaken())
				}
				if time.Sleep(c.forgets); p.NameTaken() {
					t.Error("it is never removed")
				}
			})
		})
	}
}

// TestSignsAgain: a sign of life that finds the queue full is tried again at once, and others
// when they are due.
func TestSignsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		start := time.Now()
		answers := []error{nil, store.ErrBusy, fmt.Errorf("%w: really", store.ErrBusy), nil, store.ErrUncertain, nil}
		var at []time.Duration
		repeatSigns(ctx, func() error {
			at = append(at, time.Since(start))
			if len(at) == len(answers) {
				cancel()
			}
			return answers[len(at)-1]
		})
		want := []time.Duration{0, signPeriod, signPeriod + busyPause, signPeriod + 2*busyPause, 2 * signPeriod, 3 * signPeriod}
		if !slices.Equal(at, want) {
			t.Errorf("given at %v, want %v", at, want)
		}
	})
}

// TestAwaitGoneBack: a caller that waits for a lost revision gets an answer.
func TestAwaitGoneBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := fed(slog.New(slog.DiscardHandler))
		defer p.hub.Close()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		p.ctx = ctx
		p.take(store.Batch{Revision: 100, Listed: true, Epoch: "old"})
		ended := make(chan error, 1)
		go func() { ended <- p.await(t.Context(), 150) }()
		synctest.Wait()
		p.take(store.Batch{Revision: 120})
		synctest.Wait()
		select {
		case err := <-ended:
			t.Errorf("at 120: %v", err)
		default:
		}
		p.take(store.Batch{Revision: 80, Listed: true, Epoch: "new"})
		synctest.Wait()
		select {
		case err := <-ended:
			if !errors.Is(err, store.ErrUnavailable) {
				t.Error(err)
			}
		default:
			t.Error("waits for what is lost")
			cancel()
			t.Log(<-ended)
		}
	})
}
