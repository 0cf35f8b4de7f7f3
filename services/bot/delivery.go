package bot

import (
	"context"
	"encoding/json"
	"time"

	"dyno/services/bot/openai"
	"dyno/services/bot/store"
	"dyno/services/bot/upstream"
	"dyno/services/internal/wait"
)

// A delivery is an answer that its client gets as it comes. used may be called from any goroutine.
type delivery struct {
	entry store.Entry
	price upstream.Price
	used  func() openai.Usage
}

// Answers under way are noted in the archive, so that they are in the ledger if this gateway is killed. A gateway that has
// answers under way and notes nothing for noteLease was killed.
const (
	noteEvery = time.Second
	noteLease = 30 * time.Second
)

// deliver has the usage of an answer noted until it has ended.
func (x *exchange) deliver(used func() openai.Usage) (ended func()) {
	d := &delivery{x.entry, x.answer.Prices.At(x.entry.At), used}
	e := &d.entry
	e.Upstream, e.Model, e.Attempts, e.Outcome, e.FirstByte = x.answer.Upstream, x.answer.Model, int64(x.answer.Attempts), store.Killed, x.first
	x.g.under.Store(e.ID, d)
	return func() { x.g.under.Delete(e.ID) }
}

// noteAlways notes until the gateway ends, and settles what others have noted.
func (g *Gateway) noteAlways() {
	gateway, noted, ticks := store.NewID(), false, 0
	wait.Every(g.alive, noteEvery, func() {
		ctx, cancel := context.WithTimeout(g.alive, g.cfg.StoreTimeout)
		defer cancel()
		note, err := g.note(), error(nil)
		if note != "" || noted {
			err = g.archive.Note(ctx, gateway, time.Now(), note)
			noted = note != "" || err != nil
		}
		if ticks++; err == nil && ticks%10 == 0 {
			err = g.settleKilled(ctx, false)
		}
		if err != nil && g.alive.Err() == nil {
			g.stats.Degraded("archive")
		}
	})
}

// note returns the records of all answers under way, as they are now.
func (g *Gateway) note() string {
	var list []store.Record
	for _, d := range g.under.Range {
		d := d.(*delivery)
		e, u := d.entry, d.used()
		use(&e, u)
		e.Took = time.Since(e.At)
		list = append(list, store.Record{Entry: &e, Price: charge(&e, u, d.price)})
	}
	if list == nil {
		return ""
	}
	text, _ := json.Marshal(list) // of plain members
	return string(text)
}

// settleKilled writes the entries that were noted by gateways that were killed: all others, if this one is alone.
func (g *Gateway) settleKilled(ctx context.Context, alone bool) error {
	before := time.Now()
	if !alone {
		before = before.Add(-noteLease)
	}
	notes, err := g.archive.Notes(ctx, before)
	if err != nil {
		return err
	}
	for gateway, note := range notes {
		var records []store.Record
		if err := json.Unmarshal([]byte(note), &records); err != nil {
			g.log.Error("what a gateway has noted cannot be read", "gateway", gateway, "error", err)
		}
		if _, err := g.archive.Write(ctx, records); err != nil {
			return err
		}
		if err := g.archive.Note(ctx, gateway, time.Time{}, ""); err != nil {
			return err
		}
		g.log.Warn("a gateway was killed: its answers under way are in the ledger", "answers", len(records))
	}
	return nil
}
