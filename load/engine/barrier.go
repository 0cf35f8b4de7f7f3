package engine

import (
	"context"
	"fmt"
	"time"

	"dyno/load/wire"
)

// A Barrier connects engines of several processes that carry one load together. One process may have
// too few descriptors for the connections. They begin together. Where there are subscribers, each
// engine learns what the others have published, so that its subscribers know what is missing. Its
// methods block until the others have come as far, or fail. They are called once each, in this order,
// and not at all by an engine that fails before; WaitPublished only with subscribers.
type Barrier interface {
	// Join tells the others of this engine, all of whose connections have been tried, and
	// waits for theirs. It returns what all of them are together, and when the warm-up
	// begins.
	Join(ctx context.Context, self Party) (all Party, start time.Time, err error)

	// WaitPublished tells the others what this engine has published, which is done with it,
	// and returns what all have.
	WaitPublished(ctx context.Context, published []wire.Source) (all []wire.Source, err error)
}

// A Party is what an engine brings to a load.
type Party struct {
	Threads []int         // that carry it: ids as of gettid(2)
	Sources []wire.Source // that may publish
	// Epoch is when the warm-up begins for all, as Unix time in nanoseconds by their agreed clock: what
	// they publish is stamped by it. 0: each has its machine's.
	Epoch int64
}

// publishedTimeout bounds how long an engine that has ended waits to hear what the others
// have published: they end when it does, but for their last requests.
const publishedTimeout = 10 * time.Second

// join finds out when the warm-up begins, and who carries the load.
func (e *engine) join(ctx context.Context) (start time.Time, threads []int, err error) {
	for _, w := range e.workers {
		threads = append(threads, w.thread)
	}
	if e.config.Barrier == nil {
		return time.Now().Add(lead), threads, nil
	}
	self := Party{Threads: threads}
	for _, w := range e.workers {
		self.Sources = append(self.Sources, w.sources(true)...)
	}
	all, start, err := e.config.Barrier.Join(ctx, self)
	if err != nil {
		return start, nil, fmt.Errorf("engine: join the others: %w", err)
	}
	if all.Epoch != 0 {
		e.epoch = all.Epoch - int64(start.Sub(e.base))
	}
	e.publications.Expect(all.Sources)
	return start, all.Threads, nil
}

// learnPublished learns what the other engines have published, once this one is done with
// that.
func (e *engine) learnPublished(ctx context.Context) error {
	err := e.publications.Learn(func(own []wire.Source) ([]wire.Source, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.config.Drain+e.config.Timeout+publishedTimeout)
		defer cancel()
		return e.config.Barrier.WaitPublished(ctx, own)
	})
	if err != nil {
		return fmt.Errorf("engine: what the others have published: %w", err)
	}
	return nil
}

// sources returns the sources of a worker's publishers: those that have published, or
// also those that may.
func (w *worker) sources(planned bool) (sources []wire.Source) {
	for i := range w.conns.all {
		p, ok := w.conns.all[i].client.(wire.Stamper)
		if !ok {
			continue
		}
		for s := range p.Sources {
			if planned || s.Published > 0 {
				sources = append(sources, s)
			}
		}
	}
	return sources
}

// post tells all workers what this one has published. It has finished.
func (w *worker) post() {
	if !w.posted && w.engine.config.Subscribers != nil {
		w.posted = true
		w.engine.publications.Report(w.sources(false))
	}
}
