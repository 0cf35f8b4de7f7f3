package bot

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"dyno/services/bot/store"
	"dyno/services/bot/upstream"
)

// A live is the configuration that SIGHUP reads again, and replaces as a whole. Changes of the directory replace single
// keys of it. Running requests keep the key with which they began, and its upstreams.
type live struct {
	keyless *apiKey // the key of all requests if no keys are configured; otherwise nil
	tenants int     // 1 if one key may have everything
	pool    *upstream.Pool
	model   string // of /v1/bot/chat

	mu     sync.RWMutex // guards what follows
	keys   map[[sha256.Size]byte]*apiKey
	payers map[string]*apiKey // by ID
}

// bySecret returns the key of a secret by its hash; nil without one.
func (l *live) bySecret(sum [sha256.Size]byte) *apiKey {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if k := l.keys[sum]; k != nil && (sum != k.old || time.Now().Before(k.oldUntil)) {
		return k
	}
	return nil
}

// payer returns the key of an ID; nil without one.
func (l *live) payer(id string) *apiKey {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.payers[id]
}

// replace replaces a key by another of its ID; nil is none.
func (l *live) replace(was, is *apiKey) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if was != nil {
		delete(l.payers, was.id)
		for _, sum := range [][sha256.Size]byte{was.sum, was.old} {
			if l.keys[sum] == was {
				delete(l.keys, sum)
			}
		}
	}
	if is == nil {
		return
	}
	l.payers[is.id] = is
	for _, sum := range [][sha256.Size]byte{is.old, is.sum} {
		if k := l.keys[sum]; sum != [sha256.Size]byte{} && (k == nil || !k.declared) {
			l.keys[sum] = is
		}
	}
}

// keylessID is the ID of that key.
const keylessID = "local"

// tenants returns for how many keys capacity is divided: more than one, if keys are made at run time.
func (c *Config) tenants() int {
	if c.ManageKeys {
		return max(2, len(c.Keys))
	}
	return len(c.Keys)
}

// newLive makes the state of keys and upstreams, with those of the directory. Keys that existed before keep their
// shares.
func (g *Gateway) newLive(cfg Config, before *live) (*live, error) {
	l := &live{keys: map[[sha256.Size]byte]*apiKey{}, payers: map[string]*apiKey{}, model: cfg.Model, tenants: cfg.tenants()}
	from := cfg.Upstream
	if l.tenants == 0 {
		l.keyless = &apiKey{id: keylessID}
		l.payers[keylessID] = l.keyless
	}
	for _, k := range cfg.Keys {
		sum, err := hex.DecodeString(k.SHA256)
		if err != nil {
			return nil, err
		}
		key := &apiKey{id: k.ID, declared: true, sum: [sha256.Size]byte(sum)}
		if len(k.Models) > 0 {
			key.models = [][]string{k.Models}
		}
		for _, limit := range k.Limits {
			key.limits = append(key.limits, limit.limit())
		}
		l.replace(nil, key)
		if free := k.free(from.All()); len(free) > 0 {
			g.log.Warn("a key with a limit of money may use models without a price, which it does not bound", "key", k.ID, "models", free)
		}
	}
	if g.directory != nil {
		g.declare(cfg)
		var err error
		if from, err = g.directory.Upstreams("", "", nil); err != nil {
			return nil, fmt.Errorf("with what was made at run time: %w", err)
		}
		for _, id := range g.directory.KeyIDs() {
			if a := g.directory.Access(id); a != nil {
				l.replace(nil, newKey(id, a))
			}
		}
	}
	c := g.asking
	c.Tenants = l.tenants
	c.TakeServers(from)
	if before != nil {
		c.Before = before.pool
	}
	var err error
	if l.pool, err = upstream.New(c); err != nil {
		return nil, err
	}
	if l.model == "" && len(l.pool.Models()) > 0 {
		l.model = l.pool.Models()[0]
	}
	// One of several keys may have half; a lone key may have all, so its shares differ.
	same := before != nil && (before.tenants > 1) == (l.tenants > 1)
	g.setKeys(l.tenants)
	g.plugins.SetKeys(l.tenants)
	for id, k := range l.payers {
		var tenant *upstream.Tenant
		if same && before.payers[id] != nil {
			k.shares, tenant = before.payers[id].shares, before.payers[id].tenant
		} else {
			k.shares = g.newShares()
		}
		k.pool, k.model, k.tenant = l.pool, l.model, l.pool.NewTenant(&k.answers, k.mayUse, tenant)
	}
	return l, nil
}

// limits returns the limits of all keys, by ID.
func (l *live) limits() map[string][]store.Limit {
	limits := map[string][]store.Limit{}
	for id, k := range l.payers {
		limits[id] = k.limits
	}
	return limits
}

// flushTime bounds the wait for records to be written before new limits are summed up.
const flushTime = time.Second

// seed has the limits of keys that are new in this process begin with the ledger's sums, if this process counts them. The
// key "" has limits of teams and users.
func (g *Gateway) seed(ctx context.Context, limits map[string][]store.Limit) error {
	flushed := false
	for key, list := range limits {
		now := time.Now()
		if g.seeds == nil || g.seeds.Seeded(key, list, now) {
			continue
		}
		if !flushed {
			// Waiting records count as well. With many answers running, there are always some.
			soon, done := context.WithTimeout(ctx, flushTime)
			_ = g.batch.Flush(soon)
			done()
			flushed = true
		}
		if err := g.seeds.Seed(ctx, g.archive, key, list, now); err != nil {
			return fmt.Errorf("sum up the usage of key %q by the ledger (a longer store timeout gives it more time): %w", key, err)
		}
	}
	return nil
}

// reset ends the cool-downs of a deployment, for all keys and for each; "" is of all. It reports whether there is one.
func (l *live) reset(id string) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	tenants := make([]*upstream.Tenant, 0, len(l.payers))
	for _, k := range l.payers {
		tenants = append(tenants, k.tenant)
	}
	return l.pool.Reset(id, tenants)
}

// reload reads keys, upstreams and the model of conversations again. The whole file must be valid, and fit the
// settings that are not read again; otherwise nothing changes. The log of requests is opened again in any case.
func (g *Gateway) reload() error {
	if g.requests != nil {
		g.requests.Reopen()
	}
	if g.cfg.Reread == nil {
		return nil
	}
	fresh, err := g.cfg.Reread()
	if err != nil {
		return err
	}
	if (fresh.tenants() == 0) != (g.cfg.tenants() == 0) {
		return errors.New("keys: a gateway without API keys gets some, or loses all, only by a restart")
	}
	c := g.cfg
	take(&c, fresh)
	if err := c.Validate(); err != nil {
		return fmt.Errorf("with the fields that only a restart changes: %w", err)
	}
	g.swapping.Lock()
	defer g.swapping.Unlock()
	before := g.live.Load()
	l, err := g.newLive(c, before)
	if err == nil {
		ctx, cancel := context.WithTimeout(g.alive, max(openTimeout, 10*g.cfg.StoreTimeout))
		defer cancel()
		if err = g.seed(ctx, l.limits()); err != nil {
			l.pool.Close(before.pool)
		}
	}
	if err != nil {
		g.setKeys(before.tenants)
		g.plugins.SetKeys(before.tenants)
		g.declare(g.file)
		return err
	}
	g.live.Store(l)
	g.file = c
	l.reset("")
	before.pool.Close(l.pool) // connections in use are closed after their answers
	g.log.Info("read again", "keys", len(c.Keys), "deployments", len(c.Upstream.All()), "model", l.model)
	if others := restarts(g.cfg, fresh); len(others) > 0 {
		g.log.Warn("these fields have changed, and only a restart reads them", "fields", others)
	}
	return nil
}

// take replaces the fields that are read again.
func take(to *Config, from Config) {
	to.Keys, to.Model = from.Keys, from.Model
	to.Upstream.TakeServers(from.Upstream)
}

// restarts returns the fields that differ and are not read again.
func restarts(was, is Config) (fields []string) {
	take(&was, is)
	var compare func(path string, a, b reflect.Value)
	compare = func(path string, a, b reflect.Value) {
		for i := range a.NumField() {
			f := a.Type().Field(i)
			name, words, _ := strings.Cut(f.Tag.Get("yaml"), ",")
			switch {
			case name == "" && (f.Anonymous || strings.Contains(words, "inline")):
				compare(path, a.Field(i), b.Field(i))
			case name == "":
			case f.Type.Kind() == reflect.Struct:
				compare(path+name+".", a.Field(i), b.Field(i))
			case !reflect.DeepEqual(a.Field(i).Interface(), b.Field(i).Interface()):
				fields = append(fields, path+name)
			}
		}
	}
	compare("", reflect.ValueOf(was), reflect.ValueOf(is))
	slices.Sort(fields)
	return fields
}
