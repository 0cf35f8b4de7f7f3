package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"dyno/lab/fleet/identity"
)

// Names of documents in the namespace Trust.
const (
	revokedPrefix  = "revoked."
	revokedNames   = revokedPrefix + "name."
	revokedSerials = revokedPrefix + "serial."
)

// refollow is the pause before revocations are followed again.
const refollow = 5 * time.Second

// A Revocation revokes certificates of a fleet. It is forgotten after they have ended.
type Revocation struct {
	Name   string    `json:"name,omitempty"`   // a member: its certificates signed until At
	Serial string    `json:"serial,omitempty"` // or the serial number of one certificate
	At     time.Time `json:"at"`
}

// document returns the name of the document of a revocation.
func (v *Revocation) document() string {
	if v.Serial != "" {
		return revokedSerials + v.Serial
	}
	return revokedNames + v.Name
}

// Revoke revokes a member, or one certificate. Agents, coordinators and the authority that follow the control plane refuse it
// within seconds.
func (r *Registry) Revoke(ctx context.Context, v Revocation) error {
	v.At = time.Now().UTC()
	_, err := Change(ctx, r, v.document(), func(d *Revocation) error {
		*d = v
		return nil
	})
	if broken, ok := errors.AsType[*BrokenError](err); ok {
		return fmt.Errorf("%w: it is revoked already", broken)
	}
	return errors.Join(err, r.forgetRevoked(ctx))
}

// forgetRevoked removes revocations of certificates that have all ended.
func (r *Registry) forgetRevoked(ctx context.Context) error {
	all, err := r.Revoked(ctx)
	for _, v := range all {
		if !v.At.IsZero() && time.Since(v.At) > identity.Lifetime+time.Hour {
			err = errors.Join(err, r.Remove(ctx, v.document()))
		}
	}
	return err
}

// Reinstate takes a revocation back.
func (r *Registry) Reinstate(ctx context.Context, v Revocation) error {
	return r.Remove(ctx, v.document())
}

// Revoked returns all revocations, by name and serial number.
func (r *Registry) Revoked(ctx context.Context) ([]Revocation, error) {
	found, broken, err := Documents[Revocation](ctx, r, revokedPrefix)
	return revocations(found, broken), err
}

// revocations uses the names of documents: a member stays revoked even if its document is unreadable.
func revocations(found map[string]Revocation, broken []Broken) (all []Revocation) {
	add := func(document string, at time.Time) {
		v := Revocation{At: at}
		name, isName := strings.CutPrefix(revokedPrefix+document, revokedNames)
		serial, isSerial := strings.CutPrefix(revokedPrefix+document, revokedSerials)
		switch {
		case isName:
			v.Name = name
		case isSerial:
			v.Serial = serial
		default:
			return
		}
		all = append(all, v)
	}
	for document, v := range found {
		add(document, v.At)
	}
	for _, b := range broken {
		add(b.Name, time.Time{})
	}
	slices.SortFunc(all, func(a, b Revocation) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Serial, b.Serial))
	})
	return all
}

// forever is the end of a revocation without one.
var forever = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

func identities(all []Revocation) *identity.Revocations {
	of := &identity.Revocations{Names: map[string]time.Time{}, Serials: map[string]bool{}}
	for _, v := range all {
		if v.Serial != "" {
			of.Serials[v.Serial] = true
			continue
		}
		of.Names[v.Name] = v.At
		if v.At.IsZero() {
			of.Names[v.Name] = forever
		}
	}
	return of
}

// FollowRevoked passes each change of the revocations to apply, until ctx ends or apply returns an error, which it
// returns. While the control plane does not answer, the last ones hold.
func (r *Registry) FollowRevoked(ctx context.Context, log *slog.Logger, apply func(*identity.Revocations) error) error {
	for ctx.Err() == nil {
		f, err := Follow[Revocation](r, revokedPrefix)
		if err != nil {
			return err
		}
		for err == nil {
			var (
				found   map[string]Revocation
				broken  []Broken
				current bool
			)
			if found, broken, current, err = f.Next(ctx); err == nil && current {
				if refused := apply(identities(revocations(found, broken))); refused != nil {
					f.Close()
					return refused
				}
			}
		}
		f.Close()
		if ctx.Err() == nil {
			log.Warn("who is revoked is not known", "error", err, "again_after", refollow)
		}
		select {
		case <-ctx.Done():
		case <-time.After(refollow):
		}
	}
	return nil
}
