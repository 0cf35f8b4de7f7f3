package plane

import (
	"maps"
	"slices"
	"sync"

	"dyno/services/control/resource"
	"dyno/services/control/traffic"
)

// dataPlanes counts the connected data planes of this replica by kind.
type dataPlanes struct {
	mu     sync.Mutex // guards counts
	counts map[string]int
}

// EnterDataPlane notes that a data plane of a kind is connected, until left is called.
func (p *Plane) EnterDataPlane(kind string) (left func()) {
	p.dataPlanes.add(kind, 1)
	return func() { p.dataPlanes.add(kind, -1) }
}

func (d *dataPlanes) add(kind string, n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.counts == nil {
		d.counts = map[string]int{}
	}
	if d.counts[kind] += n; d.counts[kind] == 0 {
		delete(d.counts, kind)
	}
}

// Limitations returns what the data planes that are connected to this replica cannot do of a policy.
func (p *Plane) Limitations(policy *resource.Policy) []traffic.Limitation {
	p.dataPlanes.mu.Lock()
	kinds := slices.Sorted(maps.Keys(p.dataPlanes.counts))
	p.dataPlanes.mu.Unlock()
	return traffic.Limitations(policy, kinds)
}
