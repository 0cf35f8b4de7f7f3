package plane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"dyno/services/control/resource"
	"dyno/services/internal/wait"
)

// A Centre is another control plane, whose instances this one copies into its store: those of its service shop are of
// the service shop@NAME here, and have the holder @NAME. So all that this control plane answers has them, and policies
// name such a service to replace another.
type Centre struct {
	plane *Plane
	name  string
	mu    sync.Mutex // guards state
	state Following
}

// isOfCopies reports whether a holder stands for the replicas of another control plane. No replica has such a name.
func isOfCopies(holder string) bool { return holder == followed || strings.HasPrefix(holder, "@") }

// markAt returns an instance's mark in the set of its holder. The sets of centres have the paths that instances have there.
func markAt(holder, path string) mark {
	if strings.HasPrefix(holder, "@") {
		path = strings.Replace(path, holder+"/", "/", 1)
	}
	return markOf(path)
}

// Centre returns one of Config.Centres; nil is none.
func (p *Plane) Centre(name string) *Centre {
	if i := slices.Index(p.cfg.Centres, name); i >= 0 {
		return p.centres[i]
	}
	return nil
}

// Centres returns how complete the copies of all centres are, by name, if this replica copies.
func (p *Plane) Centres() map[string]Following {
	if !p.leads() {
		return nil
	}
	all := map[string]Following{}
	for _, c := range p.centres {
		c.mu.Lock()
		one := c.state
		c.mu.Unlock()
		one.Age = min(max(0, time.Since(one.At)), maxBehind).Seconds()
		all[c.name] = one
	}
	return all
}

// leads reports whether this replica does what one is enough for: it is the first of those that live.
func (p *Plane) leads() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.living) > 0 && p.living[0] == p.self
}

// Lead calls do whenever this replica begins to lead, until ctx ends. The context of do ends when another one leads. For a
// moment two replicas may: do must bear that.
func (p *Plane) Lead(ctx context.Context, do func(context.Context)) {
	wait.Every(ctx, sharePeriod, func() {
		if !p.leads() {
			return
		}
		leading, stop := context.WithCancel(ctx)
		defer stop()
		go wait.Every(leading, sharePeriod, func() {
			if !p.leads() {
				stop()
			}
		})
		do(leading)
	})
}

// isCopied refuses changes of what a centre has.
func (p *Plane) isCopied(r resource.Ref) error {
	at := strings.LastIndexByte(r.Name, '@')
	if at < 0 || r.Kind != resource.Instances || p.Centre(r.Name[at+1:]) == nil {
		return nil
	}
	return &Problem{Kind: NotPermitted, Detail: fmt.Sprintf("%s is copied from the centre %s: change it there", r, r.Name[at+1:])}
}

// CopyAll stores instances as the centre has them, and ignores all else. It returns once the replica knows them.
func (c *Centre) CopyAll(ctx context.Context, copies map[resource.Ref]Copy) error {
	here, added := map[resource.Ref]Copy{}, 0
	for ref, one := range copies {
		ref.Name += c.holder()
		if ref.Kind != resource.Instances || ref.Check() != nil { // its name has become too long
			continue
		}
		if one.Body != nil {
			doc, err := resource.Parse(ref.Kind, one.Body)
			if err != nil {
				return fmt.Errorf("%s: %w", ref, err)
			}
			i := doc.(*resource.Instance)
			if isOfCopies(i.Holder) { // the centre has it from another one
				continue
			}
			i.Service, i.Holder = ref.Name, c.holder()
			if one.Body, err = json.Marshal(i); err != nil {
				return fmt.Errorf("%s: %w", ref, err)
			}
			if c.plane.catalog.Get(ref) == nil {
				added++
			}
		}
		here[ref] = one
	}
	if limit := c.plane.Limits().Instances; added > 0 && c.plane.catalog.Count(resource.Instances)+added > limit {
		return &resource.TooMany{What: "instances", Limit: limit}
	}
	return c.plane.CopyAll(ctx, here)
}

// CopyOnly ends a copy of everything: it removes the other copies.
func (c *Centre) CopyOnly(ctx context.Context, refs map[resource.Ref]bool, _ string) error {
	return c.plane.removeCopies(ctx, c.holder(), refs)
}

// CopyOverdue stores which instances are overdue at the centre.
func (c *Centre) CopyOverdue(ctx context.Context, parts Overdue) error {
	return c.plane.copyOverdue(ctx, c.holder(), parts)
}

// NoteFollowing changes the state of the copies.
func (c *Centre) NoteFollowing(_ context.Context, change func(*Following)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(&c.state)
	return nil
}

// holder holds all copies of the centre.
func (c *Centre) holder() string { return "@" + c.name }

// removeCopies removes the copies of a holder, other than those of some instances of the centre.
func (p *Plane) removeCopies(ctx context.Context, holder string, keep map[resource.Ref]bool) error {
	gone := map[resource.Ref]Copy{}
	p.mu.Lock()
	for path := range p.held[holder] {
		ref, err := resource.ParsePath(path)
		there := ref
		there.Name = strings.TrimSuffix(ref.Name, holder)
		if err == nil && !keep[there] {
			gone[ref] = Copy{}
		}
	}
	p.mu.Unlock()
	return p.CopyAll(ctx, gone)
}

// dropPeriod is the pause between two looks for copies of centres that are no longer configured.
const dropPeriod = 2 * time.Second

// dropCopies removes such copies.
func (p *Plane) dropCopies() {
	wait.Every(p.ctx, dropPeriod, func() {
		if !p.leads() {
			return
		}
		p.mu.Lock()
		holders := slices.Collect(maps.Keys(p.held))
		p.mu.Unlock()
		for _, holder := range holders {
			if strings.HasPrefix(holder, "@") && p.Centre(holder[1:]) == nil {
				if err := errors.Join(p.removeCopies(p.ctx, holder, nil), p.putMarks(p.ctx, holder, markSet{}, false)); err != nil {
					p.log.Warn("the instances of a centre that is not configured stay: they could not all be removed", "centre", holder[1:], "error", err, "again_in", dropPeriod.String())
					continue
				}
				p.log.Info("the instances of a centre that is not configured are removed", "centre", holder[1:])
			}
		}
	})
}
