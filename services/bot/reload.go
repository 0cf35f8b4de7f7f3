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
	"time"

	"dyno/services/bot/upstream"
)

// A live is the configuration that SIGHUP reads again. It is immutable, and replaced as a whole. Running requests
// keep the one with which they began, by their key.
type live struct {
	keyless *apiKey // the key of all requests if no keys are configured; otherwise nil
	keys    map[[sha256.Size]byte]*apiKey
	payers  map[string]*apiKey // by ID
	pool    *upstream.Pool
	model   string // of /v1/bot/chat
}

// keylessID is the ID of that key.
const keylessID = "local"

// newLive makes the state of keys and upstreams. Keys that existed before keep their shares.
func (g *Gateway) newLive(keys []Key, from upstream.Config, model string, before *live) (*live, error) {
	l := &live{keys: map[[sha256.Size]byte]*apiKey{}, payers: map[string]*apiKey{}, model: model}
	if len(keys) == 0 {
		l.keyless = &apiKey{id: keylessID}
		l.payers[keylessID] = l.keyless
	}
	for _, k := range keys {
		sum, err := hex.DecodeString(k.SHA256)
		if err != nil {
			return nil, err
		}
		key := &apiKey{id: k.ID, models: k.Models}
		for _, limit := range k.Limits {
			key.limits = append(key.limits, limit.limit())
		}
		l.keys[[sha256.Size]byte(sum)] = key
		l.payers[k.ID] = key
		if free := k.free(from.All()); len(free) > 0 {
			g.log.Warn("a key with a limit of money may use models without a price, which it does not bound", "key", k.ID, "models", free)
		}
	}
	c := g.asking
	c.Tenants = len(keys)
	c.TakeServers(from)
	if before != nil {
		c.Before = before.pool
	}
	var err error
	if l.pool, err = upstream.New(c); err != nil {
		return nil, err
	}
	if l.model == "" {
		l.model = l.pool.Models()[0]
	}
	// One of several keys may have half; a lone key may have all, so its shares differ.
	same := before != nil && (len(before.payers) > 1) == (len(l.payers) > 1)
	g.setKeys(len(keys))
	g.plugins.SetKeys(len(keys))
	for id, k := range l.payers {
		if same && before.payers[id] != nil {
			k.shares = before.payers[id].shares
		} else {
			k.shares = g.newShares()
		}
		k.pool, k.model, k.tenant = l.pool, l.model, l.pool.NewTenant(&k.answers, k.mayUse)
	}
	return l, nil
}

// flushTime bounds the wait for records to be written before new limits are summed up.
const flushTime = time.Second

// reload reads keys, upstreams and the model of conversations again. The whole file must be valid, and fit the
// settings that are not read again; otherwise nothing changes.
func (g *Gateway) reload() error {
	fresh, err := g.cfg.Reread()
	if err != nil {
		return err
	}
	if (len(fresh.Keys) == 0) != (len(g.cfg.Keys) == 0) {
		return errors.New("keys: a gateway without API keys gets some, or loses all, only by a restart")
	}
	c := g.cfg
	take(&c, fresh)
	if err := c.Validate(); err != nil {
		return fmt.Errorf("with the fields that only a restart changes: %w", err)
	}
	before := g.live.Load()
	l, err := g.newLive(c.Keys, c.Upstream, c.Model, before)
	if err != nil {
		return err
	}
	if g.seeds != nil {
		ctx, cancel := context.WithTimeout(g.alive, max(openTimeout, 10*g.cfg.StoreTimeout))
		defer cancel()
		// Waiting records count as well. With many answers running, there are always some.
		soon, done := context.WithTimeout(ctx, flushTime)
		_ = g.batch.Flush(soon)
		done()
		for id, k := range l.payers {
			if err == nil {
				err = g.seeds.Seed(ctx, g.archive, id, k.limits, time.Now())
			}
		}
		if err != nil {
			g.setKeys(len(before.payers))
			g.plugins.SetKeys(len(before.payers))
			l.pool.Close()
			return fmt.Errorf("sum up the usage of keys by the ledger: %w", err)
		}
	}
	g.live.Store(l)
	before.pool.Close() // connections in use are closed after their answers
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
