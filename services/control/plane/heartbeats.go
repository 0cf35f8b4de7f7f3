package plane

import (
	"cmp"
	"context"

	"dyno/services/control/access"
	"dyno/services/control/resource"
)

// MaxTogether bounds the heartbeats or acknowledgements of one request.
const MaxTogether = 10_000

// An Unheard is an instance whose heartbeat was refused, with the reason.
type Unheard struct {
	Index int // its index in the request
	*Problem
}

// Heartbeats notes that instances are alive. It returns the unknown ones, whose clients have to register again, and
// the refused ones. A refused heartbeat must not affect the others, whose instances would expire. If all are refused,
// the error is that of the first: as with one heartbeat, a client tries another replica.
func (p *Plane) Heartbeats(ctx context.Context, by Caller, refs []resource.Ref) (unknown []int, refused []Unheard, err error) {
	var broken error // the first error that is not the request's fault
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

// heartbeats returns the error of each heartbeat, in their order. It notes those of known instances before anything
// that may wait or fail. A failure of one instance does not affect the others.
func (p *Plane) heartbeats(ctx context.Context, by Caller, refs []resource.Ref) []error {
	errs := make([]error, len(refs))
	permitted := map[string]error{} // errors by namespace
	var unknown []int
	for i, r := range refs {
		why, asked := permitted[r.Namespace]
		if !asked {
			why = by.may(access.Register, r.Namespace)
			permitted[r.Namespace] = why
		}
		if why = cmp.Or(why, p.readOnly()); why == nil {
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
	// They may just have been registered at another replica. One look suffices for all of them.
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
