package plane

import (
	"context"
	"sync"

	"dyno/services/control/resource"
)

// adoptions is how many instances of one call are taken over at a time. They wait for the
// store, which makes groups of them: fewer than a group has, so that one call fills none.
const adoptions = 64

// Heartbeats notes that instances are alive, as Heartbeat does of one, and returns what became
// of each, in their order. Those that this replica holds are noted before anything that may
// wait or fail, and no instance's failure is another's.
func (p *Plane) Heartbeats(ctx context.Context, by Caller, refs []resource.Ref) []error {
	errs := make([]error, len(refs))
	var rest []int
	stranger := false // whether there is one that this replica does not know
	for i, r := range refs {
		if p.beat(r) {
			continue
		}
		rest = append(rest, i)
		stranger = stranger || p.catalog.Get(r) == nil
	}
	if stranger {
		// Perhaps it was registered a moment ago, elsewhere. Once for all of them.
		err := p.catchUp(ctx)
		known := rest[:0]
		for _, i := range rest {
			switch {
			case p.catalog.Get(refs[i]) != nil:
				known = append(known, i)
			case err != nil:
				errs[i] = err
			default:
				errs[i] = &NotFound{refs[i]}
			}
		}
		rest = known
	}
	next := make(chan int)
	var workers sync.WaitGroup
	for range min(adoptions, len(rest)) {
		workers.Go(func() {
			for i := range next {
				errs[i] = p.Heartbeat(ctx, by, refs[i])
			}
		})
	}
	for _, i := range rest {
		next <- i
	}
	close(next)
	workers.Wait()
	return errs
}
