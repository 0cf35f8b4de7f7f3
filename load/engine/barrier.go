package engine

import (
	"context"
	"fmt"
	"time"

	"dyno/load/engine/config"
	"dyno/load/wire"
)

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
	self := config.Party{Threads: threads}
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
		p := w.conns.all[i].stamper()
		if p == nil {
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
	if !w.posted && w.config.Subscribers != nil {
		w.posted = true
		w.engine.publications.Report(w.sources(false))
	}
}
