package registry

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A Reservation keeps new runs off machines, until their present ones have ended and the machines can be held. It
// ends with Release, or one lease time after its process has gone.
type Reservation struct {
	registry *Registry
	lease    *Lease
	names    map[string]bool // of agents
}

// ReservedError says that another run waits for a machine.
type ReservedError struct{ Name string }

func (e *ReservedError) Error() string {
	return fmt.Sprintf("the machine of agent %s is reserved for another run", e.Name)
}

// Reserve begins a reservation, of no machine yet.
func (r *Registry) Reserve(ctx context.Context) (*Reservation, error) {
	l, err := r.Lease(ctx)
	if err != nil {
		return nil, err
	}
	return &Reservation{registry: r, lease: l, names: map[string]bool{}}, nil
}

// ID returns the reservation's ID; that of nil is empty.
func (v *Reservation) ID() string {
	if v == nil {
		return ""
	}
	return v.lease.ID
}

// Take reserves the machines of exactly these agents, all or none. It takes them in the order of names, and releases
// all if one is taken. So no two reservations wait for each other.
func (v *Reservation) Take(ctx context.Context, of []Agent) error {
	wanted := map[string]bool{}
	for _, a := range of {
		wanted[a.Name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(v.names)) {
		if !wanted[name] {
			if err := v.giveBack(ctx, name); err != nil {
				return err
			}
		}
	}
	ordered := slices.SortedFunc(slices.Values(of), func(a, b Agent) int { return strings.Compare(a.Name, b.Name) })
	for _, a := range ordered {
		if err := v.take(ctx, a); err != nil {
			return errors.Join(err, v.clear(ctx))
		}
	}
	return nil
}

func (v *Reservation) take(ctx context.Context, a Agent) error {
	_, err := v.registry.change(ctx, a.Name, func(d *document) error {
		leases, err := v.registry.Leases(ctx)
		switch {
		case err != nil:
			return err
		case d.Reserved != v.lease.ID && leases[d.Reserved]:
			return &ReservedError{a.Name}
		case d.Session != a.session || d.Cordoned:
			return fmt.Errorf("agent %s has ended, or was cordoned", a.Name)
		}
		d.Reserved = v.lease.ID
		return nil
	})
	if err == nil {
		v.names[a.Name] = true
	}
	return err
}

func (v *Reservation) giveBack(ctx context.Context, name string) error {
	_, err := v.registry.change(ctx, name, func(d *document) error {
		if *d == (document{}) {
			return ErrUnknown
		}
		if d.Reserved == v.lease.ID {
			d.Reserved = ""
		}
		return nil
	})
	if err == nil || errors.Is(err, ErrUnknown) { // the agent is gone
		delete(v.names, name)
		return nil
	}
	return err
}

func (v *Reservation) clear(ctx context.Context) (err error) {
	for _, name := range slices.Sorted(maps.Keys(v.names)) {
		err = errors.Join(err, v.giveBack(ctx, name))
	}
	return err
}

// Release releases the machines, as the end of its lease does.
func (v *Reservation) Release(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	return errors.Join(v.clear(ctx), v.lease.Release(ctx))
}
