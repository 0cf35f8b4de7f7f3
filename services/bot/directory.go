package bot

import (
	"context"
	"encoding/hex"
	"fmt"
	"net/http"
	"time"

	"dyno/services/bot/directory"
	"dyno/services/bot/directory/rest"
	"dyno/services/bot/reply"
	"dyno/services/bot/store"
	"dyno/services/bot/upstream"
)

// lookEvery is how often the directory is read again, if no gateway tells of a change before.
const lookEvery = time.Second

// openDirectory makes the directory. With keys that are made at run time, it reads these, and follows their changes until
// the end.
func (g *Gateway) openDirectory(ctx context.Context) error {
	g.directory = directory.New(g.archive, g.changeKey)
	g.directory.Deployed = g.changeUpstreams
	g.declare(g.cfg)
	g.manage = rest.Handler(rest.Config{
		Directory: g.directory, Managed: g.cfg.ManageKeys, Archive: g.archiveState, Usage: g.archive.Usage, Prices: g.archive.Prices, Erase: g.erase, Used: g.addUsed,
		States: func() []upstream.State { return g.live.Load().pool.States() }, Reset: func(id string) bool { return g.live.Load().reset(id) },
		StoreTimeout: g.cfg.StoreTimeout, WriteTimeout: g.cfg.WriteTimeout,
	})
	if !g.cfg.ManageKeys {
		return nil
	}
	if err := g.directory.Refresh(ctx); err != nil {
		return err
	}
	g.directory.Erased = g.forget
	g.untilClose(g.followDirectory)
	return nil
}

func (g *Gateway) archiveState() rest.Archive {
	b := g.batch.State()
	return rest.Archive{Kind: string(g.cfg.Archive), Pending: b.Pending, Failing: b.Failing}
}

func (g *Gateway) followDirectory() {
	for failing := false; g.alive.Err() == nil; {
		wait, done := context.WithTimeout(g.alive, lookEvery)
		g.archive.Await(wait)
		done()
		ctx, cancel := context.WithTimeout(g.alive, g.cfg.StoreTimeout)
		err := g.directory.Refresh(ctx)
		cancel()
		if g.alive.Err() != nil {
			return
		}
		if err != nil {
			g.stats.Degraded("directory")
		}
		if failing != (err != nil) {
			if failing = err != nil; failing {
				g.log.Warn("changes of the directory are not followed at the moment", "error", err)
			} else {
				g.log.Info("changes of the directory are followed again")
			}
		}
	}
}

// declared returns the file's keys and limits as the directory's.
func declared(keys []Key) map[directory.Kind][]directory.Item {
	items := map[directory.Kind][]directory.Item{}
	for _, k := range keys {
		items[directory.Keys] = append(items[directory.Keys], directory.Item{ID: k.ID, Models: k.Models})
		for n, l := range k.Limits {
			limit := directory.Item{ID: fmt.Sprintf("%s:%d", k.ID, n), Key: k.ID, Resource: l.Resource, Amount: &l.Amount}
			if l.Window > 0 {
				limit.Window = l.Window.String()
			}
			items[directory.Limits] = append(items[directory.Limits], limit)
		}
	}
	return items
}

// declare tells the directory what a configuration has.
func (g *Gateway) declare(cfg Config) {
	if g.directory != nil {
		base := g.asking
		base.TakeServers(cfg.Upstream)
		g.directory.Declare(declared(cfg.Keys), base)
	}
}

// changeUpstreams replaces providers and deployments by what the directory says of them. Requests under way keep theirs.
func (g *Gateway) changeUpstreams() error {
	g.swapping.Lock()
	defer g.swapping.Unlock()
	before := g.live.Load()
	l, err := g.newLive(g.file, before)
	if err != nil {
		return err
	}
	g.live.Store(l)
	before.pool.Close(l.pool)
	return nil
}

// addUsed sets what was used of limits, with reservations; what cannot be read is left out. A limit of no key that is in use
// was not counted here so far.
func (g *Gateway) addUsed(ctx context.Context, limits []*directory.Item) {
	byKey := map[string][]*directory.Item{}
	for _, l := range limits {
		byKey[l.Key] = append(byKey[l.Key], l) // "" has those of teams and users
	}
	for key, of := range byKey {
		list := make([]store.Limit, len(of))
		for i, l := range of {
			list[i] = l.Limit()
		}
		if g.seed(ctx, map[string][]store.Limit{key: list}) != nil {
			return
		}
		used, err := g.claims.Coordinator.Used(ctx, key, list, time.Now())
		if err != nil {
			return
		}
		for i, l := range of {
			l.Used = &used[i]
		}
	}
}

// newKey returns a key of the directory.
func newKey(id string, a *directory.Access) *apiKey {
	k := &apiKey{id: id, team: a.Team, owner: a.Owner, models: a.Models, limits: a.Limits, expires: a.Expires, disabled: a.Refused, oldUntil: a.OldUntil}
	_, _ = hex.Decode(k.sum[:], []byte(a.SHA256)) // they were checked
	_, _ = hex.Decode(k.old[:], []byte(a.Old))
	return k
}

// changeKey replaces a key by what the directory says of it. Nothing else changes, and no request is cut.
func (g *Gateway) changeKey(ctx context.Context, id string, a *directory.Access) error {
	g.swapping.Lock()
	defer g.swapping.Unlock()
	l := g.live.Load()
	was := l.payer(id)
	switch {
	case was != nil && was.declared:
		return nil
	case a == nil:
		l.replace(was, nil)
		return nil
	}
	k := newKey(id, a)
	if was != nil {
		k.shares, k.tenant = was.shares, was.tenant.Allowing(k.mayUse)
	} else {
		k.shares = g.newShares()
		k.tenant = l.pool.NewTenant(&k.answers, k.mayUse, nil)
	}
	k.pool, k.model = l.pool, l.model
	if a.Refused == "" {
		if err := g.seed(ctx, map[string][]store.Limit{id: k.limits}); err != nil {
			return err
		}
	}
	l.replace(was, k)
	return nil
}

// revoked refuses requests of a key that is disabled, or has expired.
func (k *apiKey) revoked() *reply.Refusal {
	switch {
	case k.disabled != "":
		return reply.Refuse(http.StatusUnauthorized, "api_key_disabled", "%s", k.disabled)
	case !k.expires.IsZero() && !time.Now().Before(k.expires):
		return reply.Refuse(http.StatusUnauthorized, "api_key_expired", "the API key has expired")
	}
	return nil
}
