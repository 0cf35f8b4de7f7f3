package bot

import (
	"context"
	"slices"
	"time"

	"dyno/services/bot/openai"
	"dyno/services/bot/store"
	"dyno/services/bot/upstream"
)

// A delivery is an answer that its client gets as it comes. used may be called from any goroutine.
type delivery struct {
	entry store.Entry // as it was noted; of noteDeliveries
	price upstream.Price
	used  func() openai.Usage
}

// Answers under way are noted in the ledger every noteEvery: so much is lost if the gateway is killed. Others wait while
// noteBatch entries are written.
const (
	noteEvery = time.Second
	noteBatch = 128
)

// deliver has an answer noted until it has ended.
func (x *exchange) deliver(used func() openai.Usage) (ended func()) {
	d := &delivery{x.entry, x.answer.Prices.At(x.entry.At), used}
	e := &d.entry
	e.Upstream, e.Model, e.Attempts, e.Outcome, e.FirstByte = x.answer.Upstream, x.answer.Model, int64(x.answer.Attempts), store.Unfinished, x.first
	x.g.under.Store(d, nil)
	return func() { x.g.under.Delete(d) }
}

// noteDeliveries writes entries of answers of which more has come. Those that cannot be written now are later.
func (g *Gateway) noteDeliveries() {
	var changed []*delivery
	var records []store.Record
	for d := range g.under.Range {
		d, e := d.(*delivery), d.(*delivery).entry
		price := charge(&e, d.used(), d.price)
		if e.Took = time.Since(e.At); e.Completion > d.entry.Completion || d.entry.Took == 0 {
			changed, records = append(changed, d), append(records, store.Record{Entry: &e, Price: price})
		}
	}
	for part := range slices.Chunk(records, noteBatch) {
		ctx, cancel := context.WithTimeout(g.alive, g.cfg.StoreTimeout)
		_, err := g.archive.Write(ctx, part)
		cancel()
		if err != nil {
			return // the batches of other records tell
		}
		for i, r := range part {
			changed[i].entry = *r.Entry
		}
		changed = changed[len(part):]
	}
}
