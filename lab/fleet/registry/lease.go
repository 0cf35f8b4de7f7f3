package registry

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"dyno/services/control/client"
	"dyno/services/control/resource"
)

// A Lease shows that a coordinator lives, which holds machines or carries out a task. It ends with Release, or one
// lease time after its process has gone.
type Lease struct {
	ID string

	registration *client.Registration
}

// Lease begins a lease, which renews itself.
func (r *Registry) Lease(ctx context.Context) (*Lease, error) {
	l := &Lease{ID: rand.Text()}
	// No program connects to a coordinator: its instance exists only for its lease.
	var err error
	l.registration, err = r.client.Register(resource.Instance{Service: coordinators, ID: l.ID, Address: "nowhere.invalid", Port: 1, Status: resource.Down, TTL: lease.Seconds()})
	if err != nil {
		return nil, err
	}
	if err := l.registration.Ready(ctx); err != nil {
		return nil, errors.Join(err, l.Release(ctx))
	}
	return l, nil
}

// Until returns when the lease expires if the control plane cannot be reached any more.
func (l *Lease) Until() time.Time { return l.registration.Until() }

// Release ends the lease. It takes closeTimeout at most, even after ctx has ended.
func (l *Lease) Release(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	return l.registration.Close(ctx)
}

// Leases returns the IDs of the live leases. The control plane keeps silent instances for a while, and for longer if
// many are silent: then it suspects a fault of its own. A lease ends on time nevertheless: its holder knows when
// (Until), and fences end its remaining parts.
func (r *Registry) Leases(ctx context.Context) (map[string]bool, error) {
	found, err := r.living(ctx, coordinators)
	ids := map[string]bool{}
	for id, i := range found {
		if !i.Overdue {
			ids[id] = true
		}
	}
	return ids, err
}
