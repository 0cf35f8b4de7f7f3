package subscribe

import (
	"slices"

	"dyno/load/delivery"
	"dyno/load/wire"
)

// Publications holds what the publishers of an engine, and of engines joined to it, publish. All its
// workers use it: its sources are set before the load begins.
type Publications struct {
	sources   map[uint32]struct{} // that may publish
	published *delivery.Publications
	others    int           // how many must still report in addition to the workers
	finished  chan struct{} // closed when all workers have reported
}

// NewPublications returns the publications of an engine with a number of workers, joined to others
// or not.
func NewPublications(workers int, joined bool) *Publications {
	p := &Publications{sources: map[uint32]struct{}{}, finished: make(chan struct{})}
	if joined {
		p.others = 1 // all other engines together
	}
	p.published = delivery.NewPublications(workers + p.others)
	return p
}

// Expect says which sources may publish.
func (p *Publications) Expect(sources []wire.Source) {
	for _, s := range sources {
		p.sources[s.ID] = struct{}{}
	}
}

// Report tells all workers what one of them has published, which has finished.
func (p *Publications) Report(sources []wire.Source) {
	if left := p.published.Add(sources); left == p.others {
		close(p.finished)
	}
}

// Learn learns what the other engines have published, once this one is done with that: exchange is
// given what this one has published, and returns what all have.
func (p *Publications) Learn(exchange func([]wire.Source) ([]wire.Source, error)) error {
	<-p.finished
	own := p.published.List()
	all, err := exchange(own)
	if err != nil {
		return err
	}
	ours := map[uint32]bool{}
	for _, s := range own {
		ours[s.ID] = true
	}
	p.published.Add(slices.DeleteFunc(slices.Clone(all), func(s wire.Source) bool { return ours[s.ID] }))
	return nil
}
