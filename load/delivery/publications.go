package delivery

import (
	"sort"
	"sync"

	"dyno/load/wire"
)

// Published are sources after their last publication, by topic.
type Published map[int][]wire.Source

// Publications collect what the publishers of a load have published. Several goroutines may
// use them at once.
type Publications struct {
	mu   sync.Mutex // guards what follows
	left int        // publishers that have not finished
	all  Published
}

// NewPublications returns the publications of n publishers, none of which has finished.
func NewPublications(publishers int) *Publications {
	return &Publications{left: publishers, all: Published{}}
}

// Add enters what a publisher that has finished has published. It returns how many have not
// finished.
func (p *Publications) Add(sources []wire.Source) (left int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left--
	for _, s := range sources {
		p.all[s.Topic] = append(p.all[s.Topic], s)
	}
	return p.left
}

// All returns what was published, and whether that is complete: nothing changes it then.
func (p *Publications) All() (all Published, complete bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.all, p.left == 0
}

// List returns the sources so far.
func (p *Publications) List() (sources []wire.Source) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, of := range p.all {
		sources = append(sources, of...)
	}
	return sources
}

// uncertain returns how many of the numbers were not acknowledged.
func uncertain(s *wire.Source, of wire.Span) (n uint64) {
	spans := s.Uncertain
	from := sort.Search(len(spans), func(i int) bool { return spans[i].Last >= of.First })
	for _, u := range spans[from:] {
		if u.First > of.Last {
			break
		}
		n += min(u.Last, of.Last) - max(u.First, of.First) + 1
	}
	return n
}
