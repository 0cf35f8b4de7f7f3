package engine

import (
	"cmp"
	"slices"
	"sync"

	"dyno/load/wire"
)

// publications are what the workers have published, as far as they have finished.
type publications struct {
	expected int    // how many will finish: the workers, and other engines together as one
	finished func() // called once, when all workers have

	mu      sync.Mutex       // guards what follows
	workers int              // that have finished
	sources map[int][]source // by topic
}

// add enters the publications of one that has finished. It returns how many have.
func (p *publications) add(sources []wire.Source) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.workers++
	if p.sources == nil {
		p.sources = map[int][]source{}
	}
	for _, s := range sources {
		p.sources[s.Topic] = append(p.sources[s.Topic], source{s})
	}
	return p.workers
}

// all returns the sources by topic, complete once everybody has finished; nothing
// changes them afterwards.
func (p *publications) all() (sources map[int][]source, complete bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sources, p.workers == p.expected
}

// list returns the sources so far.
func (p *publications) list() (sources []wire.Source) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, of := range p.sources {
		for _, s := range of {
			sources = append(sources, s.Source)
		}
	}
	return sources
}

// sources returns the sources of a worker's publishers: those that have published, or
// also those that may.
func (w *worker) sources(planned bool) (sources []wire.Source) {
	for i := range w.conns {
		p, ok := w.conns[i].client.(wire.Stamper)
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
	if a := &w.audience; !a.posted && w.engine.config.Subscribers != nil {
		a.posted = true
		if p := &w.engine.published; p.add(w.sources(false)) == len(w.engine.workers) {
			p.finished()
		}
	}
}

// served tells, once the worker's requests have ended, whether its subscribers have
// all that is due to them, as far as they are connected.
func (w *worker) served(now int64) bool {
	a := &w.audience
	w.post()
	if now < a.look {
		return false
	}
	a.look = now + lookAgain
	sources, complete := w.engine.published.all()
	if !complete {
		return false
	}
	for i := range a.members {
		m := &a.members[i]
		if m.state != streaming || m.slow {
			continue
		}
		for topic, of := range sources {
			if !m.stream.Follows(topic) {
				continue
			}
			for _, s := range of {
				if tail, due := m.tail(s); due && s.uncertain(tail) < tail.Last-tail.First+1 {
					return false
				}
			}
		}
	}
	return true
}

// tail returns what a member has yet to see of a source, after the last that it has
// seen.
func (m *subscription) tail(s source) (missing wire.Span, due bool) {
	var seen uint64
	if at, found := find(m.sequences, s.ID); found {
		q := &m.sequences[at]
		if q.restarted {
			return wire.Span{}, false // expected from its next event on
		}
		seen = q.highest
	} else if !m.whole || len(m.sequences) == MaxSources {
		return wire.Span{}, false
	}
	missing = wire.Span{First: seen + 1, Last: s.Published}
	return missing, seen < s.Published
}

// reckon closes the accounts of a worker's members. It is called when all workers have
// ended.
func (w *worker) reckon(sources map[int][]source, interrupted bool) {
	a := &w.audience
	for i := range a.members {
		m := &a.members[i]
		number := w.engine.subscriber(w.number, int32(i)) //nolint:gosec // bounded by MaxSubscribers
		l := &a.main
		if m.slow {
			l = &a.slow
		}
		for k := range m.sequences {
			m.sequences[k].finish(number, l)
		}
		for topic, of := range sources {
			if m.slow || !m.stream.Follows(topic) {
				continue
			}
			for _, s := range of {
				missing, due := m.tail(s)
				if !due {
					continue
				}
				if m.state != streaming || interrupted {
					n := missing.Last - missing.First + 1
					uncertain := s.uncertain(missing)
					a.streams.Uncertain += uncertain
					a.streams.Pending += n - uncertain
					continue
				}
				at, found := find(m.sequences, s.ID)
				q := complete(s.ID)
				q.gapped = m.gapped
				if found {
					q = m.sequences[at]
				}
				l.miss(&q, number, missing, q.gapped)
				if found {
					m.sequences[at] = q
				}
			}
		}
	}
}

// sum adds the accounts of a worker's members, which are closed, to the result's.
func (w *worker) sum(r *Streams, sources map[uint32]source) {
	a := &w.audience
	r.add(&a.streams)
	r.Slow.Announced += a.slow.announced
	r.Slow.Missing += a.slow.lost
	for err, n := range a.failures {
		text := err.Error()
		if _, ok := r.Failures[text]; ok || len(r.Failures) < failureTexts {
			r.Failures[text] += n
		}
	}
	r.Repeated += a.main.repeated
	r.Disordered += a.main.disordered
	r.Announced += a.main.announced
	r.Lost += a.main.lost
	r.Unlisted += a.main.announced + a.main.lost
	for _, s := range a.main.stretches {
		if s.First > s.Last {
			continue // arrived late
		}
		n := s.Last - s.First + 1
		uncertain := sources[s.source].uncertain(s.Span)
		r.Uncertain += uncertain
		if s.announced {
			r.Announced += n - uncertain
		} else {
			r.Lost += n - uncertain
		}
		if uncertain < n && len(r.Missing) < MaxMissing {
			r.Missing = append(r.Missing, Missing{
				Subscriber: int(s.subscriber), Source: s.source, First: s.First, Last: s.Last, Announced: s.announced,
			})
		}
	}
}

// reckon closes the accounts of all subscribers.
func (e *engine) reckon(r *Streams) {
	r.Requested = e.config.Subscribers.Count
	r.Slow.Requested = e.config.Subscribers.Slow
	r.Failures = map[string]uint64{}
	topics, _ := e.published.all()
	sources := map[uint32]source{}
	for _, of := range topics {
		for _, s := range of {
			sources[s.ID] = s
		}
	}
	for _, w := range e.workers {
		w.reckon(topics, e.stopped())
		w.sum(r, sources)
	}
	slices.SortFunc(r.Missing, func(a, b Missing) int {
		return cmp.Or(cmp.Compare(a.Subscriber, b.Subscriber), cmp.Compare(a.Source, b.Source), cmp.Compare(a.First, b.First))
	})
}
