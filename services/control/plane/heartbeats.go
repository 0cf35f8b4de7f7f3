package plane

import (
	"context"

	"dyno/services/control/access"
	"dyno/services/control/resource"
)

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

// heartbeats returns what became of each, in their order. Those that this replica knows are noted before
// anything that may wait or fail, and no instance's failure is another's.
func (p *Plane) heartbeats(ctx context.Context, by Caller, refs []resource.Ref) []error {
	errs := make([]error, len(refs))
	permitted := map[string]error{} // why not, by namespace
	var unknown []int
	for i, r := range refs {
		why, asked := permitted[r.Namespace]
		if !asked {
			why = by.may(access.Register, r.Namespace)
			permitted[r.Namespace] = why
		}
		if why == nil {
			why = r.Check()
		}
		if errs[i] = why; why != nil {
			continue
		}
		known, err := p.beat(r)
		if errs[i] = err; !known {
			unknown = append(unknown, i)
		}
	}
	if len(unknown) == 0 {
		return errs
	}
	// Perhaps they were registered a moment ago, elsewhere. Once for all of them.
	err := p.catchUp(ctx)
	for _, i := range unknown {
		known := false
		if known, errs[i] = p.beat(refs[i]); known {
			continue
		}
		if errs[i] = err; err == nil {
			errs[i] = &NotFound{refs[i]}
		}
	}
	return errs
}
