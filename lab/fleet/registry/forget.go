package registry

import (
	"context"
	"errors"
	"time"
)

const (
	forgetAfter  = 30 * 24 * time.Hour // after an agent was found gone
	maxForgotten = 20                  // bound on the changes and removals of one call
)

var errReturned = errors.New("the agent has returned")

// Forget notes which agents are gone, and removes the documents of agents that were gone forgetAfter ago.
func (r *Registry) Forget(ctx context.Context) error {
	living, documents, _, err := r.named(ctx)
	if err != nil {
		return err
	}
	now, changes := time.Now().UTC(), 0
	for name, d := range documents {
		_, lives := living[instanceID(name, d.Session)]
		session, before := d.Session, d.Gone
		over := d.note(lives, now)
		if !over && d.Gone.Equal(before) {
			continue
		}
		if changes++; changes > maxForgotten {
			break
		}
		if over {
			err = removeIf(ctx, r, documentName(name), func(d document) bool { return d.Session == session && d.note(false, now) })
		} else {
			_, err = r.change(ctx, name, func(d *document) error {
				if d.Session != session {
					return errReturned
				}
				d.note(lives, now)
				return nil
			})
		}
		if err != nil && !errors.Is(err, errReturned) {
			return err
		}
	}
	return nil
}

// note notes whether an agent lives. over reports whether it has been gone for long enough to be forgotten.
func (d *document) note(lives bool, now time.Time) (over bool) {
	switch {
	case lives:
		d.Gone = time.Time{}
	case d.Gone.IsZero():
		d.Gone = now
	}
	return !lives && now.Sub(d.Gone) > forgetAfter
}
