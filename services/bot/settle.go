package bot

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"dyno/services/bot/openai"
	"dyno/services/bot/store"
	"dyno/services/bot/upstream"
)

// A bill is what was charged by an estimate, as an object keeps it. It has no names of users.
type bill struct {
	Entry  store.Entry
	At     time.Time
	Took   time.Duration
	Price  upstream.Price
	Limits []store.Limit // that count it
	By     string        // the process whose limits these are; "" with Redis
}

// keepBill keeps in the object how the entry is to be settled.
func (x *exchange) keepBill(price upstream.Price) {
	b := bill{x.entry, x.entry.At, x.entry.Took, price, x.counted, x.g.process}
	b.Entry.User, b.Entry.Owner = "", ""
	text, _ := json.Marshal(b) // of numbers and texts
	x.g.bill(*x.unsettled, string(text), x.unsettled.At.Add(leastPause))
}

// bill replaces the bill of an object.
func (g *Gateway) bill(o store.Object, text string, due time.Time) {
	g.note(o, func(ctx context.Context) error {
		_, err := g.archive.Bill(ctx, o, text, due)
		return err
	})
}

// settle replaces what was estimated for an object by what its upstream says, once it has ended there. The ledger takes the
// first such entry. Who ends the bill corrects the limits.
func (g *Gateway) settle(o store.Object, s openai.State, u *openai.Usage) {
	var b bill
	if o.Bill == "" || !s.Ended() || u == nil && s.Output != "" || json.Unmarshal([]byte(o.Bill), &b) != nil {
		return
	}
	e := b.Entry
	e.At, e.Took, e.User, e.Outcome = b.At, b.Took, o.User, map[bool]string{true: outcomeOK, false: outcomeFailed}[s.Complete()]
	if k := g.live.Load().payer(o.Key); k != nil {
		e.Owner = k.owner
	}
	if u == nil && s.Complete() && o.Kind == openai.Response { // the upstream does not say
		u = &openai.Usage{Prompt: int(e.Prompt), Completion: int(e.Completion), Estimated: true}
	} else if u == nil {
		u, b.Price = &openai.Usage{}, upstream.Price{}
	}
	terms := charge(&e, *u, b.Price)
	ctx, cancel := context.WithTimeout(context.Background(), g.cfg.StoreTimeout)
	defer cancel()
	if g.seeds != nil { // nobody sums up the ledger in between
		g.swapping.Lock()
		defer g.swapping.Unlock()
	}
	_, err := g.archive.Write(ctx, []store.Record{{Entry: &e, Price: terms}})
	first := false
	if err == nil {
		first, err = g.archive.Bill(ctx, o, "", time.Time{})
	}
	if first {
		g.stats.Ended(&e)
	}
	// Limits of this process began with the ledger's sum.
	if first && len(b.Limits) > 0 && (b.By == g.process || g.seeds != nil && b.At.Before(g.began)) {
		err = g.claims.Coordinator.Correct(ctx, o.Key, b.Limits, b.At, store.Cost{Tokens: e.Prompt + e.Completion - b.Entry.Prompt - b.Entry.Completion, Money: e.Money - b.Entry.Money})
	}
	if err != nil {
		g.stats.Unsettled.Inc()
		g.log.Warn("an estimate is not replaced, or limits still have it", "key", o.Key, "id", o.ID, "error", err)
	}
}

// What nobody asks for is looked at every settleEvery, some at a time: the first time after leastPause, and then after
// pauses of half of its age, for settleDays. A pause is also how long other gateways leave it to the one that looks.
const (
	settleEvery = 10 * time.Second
	dueAtOnce   = 8
	leastPause  = 2 * time.Minute
	mostPause   = 6 * time.Hour
	settleDays  = 8 * 24 * time.Hour // the longest batch, and a week
)

// settleDue looks at all that is due.
func (g *Gateway) settleDue(now time.Time) {
	for n := dueAtOnce; n == dueAtOnce && g.alive.Err() == nil; {
		ctx, cancel := context.WithTimeout(g.alive, g.cfg.StoreTimeout)
		list, err := g.archive.Due(ctx, now, dueAtOnce)
		var looks sync.WaitGroup
		for _, o := range list {
			next, first := time.Time{}, false
			if age := now.Sub(o.At); age < settleDays {
				next = now.Add(min(max(age/2, leastPause), mostPause))
			}
			if first, err = g.archive.Bill(ctx, o, o.Bill, next); err != nil {
				break
			}
			if first {
				looks.Go(func() { g.look(o) })
			}
		}
		cancel()
		looks.Wait()
		if n = len(list); err != nil {
			g.stats.Degraded("archive")
			return
		}
	}
}

// statePaths are where upstreams say how far an object has come.
var statePaths = map[string]string{openai.Response: "/responses/{id}", openai.Batch: "/batches/{id}"}

// errNoUsage says that an answer of a batch does not tell its usage.
var errNoUsage = errors.New("a line has no usage")

// look asks an upstream how far an object has come, and settles it. What the upstream cannot say stays estimated.
func (g *Gateway) look(o store.Object) {
	var s openai.State
	var u *openai.Usage
	held, most := g.answers.Grant(nil), g.cfg.Upstream.MaxAnswerBytes
	defer held.Keep(0)
	err := g.fetch(o, statePaths[o.Kind], func(p *upstream.Passed) error {
		body, err := p.ReadWhole(most, &held, io.Discard)
		_ = g.parts.Codec.JSON.Unmarshal(body, &s) // without a status, it goes on
		u = s.Usage()
		return err
	})
	if file := o; err == nil && s.Ended() && u == nil && s.Output != "" {
		file.ID, u = s.Output, &openai.Usage{}
		err = g.fetch(file, "/files/{id}/content", func(p *upstream.Passed) error {
			lines := bufio.NewScanner(p)
			for lines.Buffer(nil, int(most)); lines.Scan(); {
				one := openai.LastUsage(openai.Responses, lines.Bytes())
				if one == nil {
					return errNoUsage
				}
				*u = u.Plus(*one)
			}
			return lines.Err()
		})
	}
	failed := (*upstream.Error)(nil)
	switch {
	case err == nil:
		g.settle(o, s, u)
	case errors.Is(err, errNoUsage), errors.As(err, &failed) && failed.Status == http.StatusNotFound:
		g.bill(o, o.Bill, time.Time{})
	}
}

// fetch reads what an upstream has of an object.
func (g *Gateway) fetch(o store.Object, path string, read func(*upstream.Passed) error) error {
	ctx, cancel := context.WithTimeout(g.alive, leastPause)
	defer cancel()
	a, err := g.live.Load().pool.Forward(ctx, passing(o, &openai.Request{Model: o.Model, Choices: 1}, http.MethodGet, path, nil), nil)
	if err != nil {
		return err
	}
	defer a.Passed.Close(openai.Usage{})
	return read(a.Passed)
}

// passing returns a request about an object.
func passing(o store.Object, r *openai.Request, method, path string, body []byte) *upstream.Passing {
	return &upstream.Passing{Request: r, At: o.Upstream, Method: method, Path: strings.Replace(path, "{id}", url.PathEscape(o.ID), 1), Type: "application/json",
		Body: func(string) (io.Reader, int64) { return bytes.NewReader(body), int64(len(body)) }}
}
