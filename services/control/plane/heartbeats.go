package plane

import (
	"context"
	"sync"

	"dyno/services/control/access"
	"dyno/services/control/resource"
)

// adoptions is how many instances of one call are taken over at a time. They wait for the
// store, which makes groups of them: fewer than a group has, so that one call fills none.
const adoptions = 64

// MaxTogether is how many heartbeats or answers one request may have.
const MaxTogether = 10_000

// An Unheard is an instance whose heartbeat was refused, and why.
type Unheard struct {
	Index int // among those that were given
	*Problem
}

// Heartbeats notes that instances are alive, as Heartbeat does of one. It returns which are not known,
// whose clients have to register again, and which were refused: they are no reason to leave others
// unheard, which would expire. Where all are refused the error is that of the first: a client tries
// another replica, as with one heartbeat.
func (p *Plane) Heartbeats(ctx context.Context, by Caller, refs []resource.Ref) (unknown []int, refused []Unheard, err error) {
	var broken error // the first that is this side's fault
	for i, one := range p.heartbeats(ctx, by, refs) {
		if one == nil {
			continue
		}
		why := ProblemOf(one)
		if why.Kind == Missing {
			unknown = append(unknown, i)
			continue
		}
		if err == nil {
			err = one
		}
		if broken == nil && why.Kind.ServerFault() {
			broken = one
		}
		refused = append(refused, Unheard{i, why})
	}
	if len(refused) > 0 && len(refused) == len(refs) {
		return nil, nil, err
	}
	if broken != nil {
		p.log.Warn("heartbeats failed", "failed", len(refused), "of", len(refs), "first", broken)
	}
	return unknown, refused, nil
}

// heartbeats returns what became of each, in their order. Those that this replica holds are noted before
// anything that may wait or fail, and no instance's failure is another's.
func (p *Plane) heartbeats(ctx context.Context, by Caller, refs []resource.Ref) []error {
	errs := make([]error, len(refs))
	permitted := map[string]error{} // why not, by namespace
	var rest []int
	stranger := false // whether there is one that this replica does not know
	for i, r := range refs {
		why, asked := permitted[r.Namespace]
		if !asked {
			why = by.may(access.Register, r.Namespace)
			permitted[r.Namespace] = why
		}
		if errs[i] = why; why != nil || p.beat(r) {
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
				errs[i] = p.heartbeat(ctx, by, refs[i])
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
