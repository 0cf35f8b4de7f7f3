package control

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"dyno/internal/secretfile"
	"dyno/internal/textfile"
	"dyno/services/control/identity"
	"dyno/services/control/store"
)

// authorityKey is where the store has the authority that a control plane made.
const authorityKey = store.Log + "authority"

// kept is an authority in the store.
type kept struct {
	Certificate string `json:"certificate"`
	Key         string `json:"key"`
}

// authority returns the authority that is given, or that of the store. The first replica makes that one.
func (c Config) authority(ctx context.Context, s *store.Store) (*identity.Authority, error) {
	if c.AuthorityCert != "" {
		cert, err := textfile.Read(c.AuthorityCert, textfile.MaxBytes)
		if err != nil {
			return nil, fmt.Errorf("authority: %w", err)
		}
		key, err := secretfile.Read(c.AuthorityKey)
		if err != nil {
			return nil, fmt.Errorf("authority: %w", err)
		}
		return identity.Parse(c.TrustDomain, cert, key)
	}
	kv, err := s.Get(ctx, authorityKey)
	if err != nil {
		return nil, err
	}
	if kv.Revision == 0 {
		cert, key, err := identity.New(c.TrustDomain, time.Now())
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(kept{string(cert), string(key)})
		if err != nil {
			return nil, err
		}
		// Another replica may be faster: its authority counts.
		if _, err := s.Apply(ctx, store.Request{If: []store.Condition{{Key: authorityKey}}, Then: []store.Op{{Key: authorityKey, Value: value}}}); err != nil {
			return nil, err
		}
		if kv, err = s.Get(ctx, authorityKey); err != nil {
			return nil, err
		}
	}
	var k kept
	if err := json.Unmarshal(kv.Value, &k); err != nil {
		return nil, fmt.Errorf("%s: %w", authorityKey, err)
	}
	return identity.Parse(c.TrustDomain, []byte(k.Certificate), []byte(k.Key))
}
