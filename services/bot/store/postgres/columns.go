package postgres

import (
	"strings"
	"time"

	"dyno/services/bot/store"
)

// turnColumns has turns, column by column.
type turnColumns struct {
	session []string
	number  []int64
	id      []string
	at      []time.Time
	texts   []string
	reply   []string
	tokens  []int32
}

// clean returns text in the form that PostgreSQL can store: UTF-8 without zero bytes.
func clean(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\ufffd"), "\x00", "\ufffd")
}

func (c *turnColumns) add(t *store.Turn) {
	c.session = append(c.session, clean(t.Session))
	c.number = append(c.number, t.Number)
	c.id = append(c.id, t.ID)
	c.at = append(c.at, t.At)
	c.texts = append(c.texts, clean(t.User))
	c.reply = append(c.reply, clean(t.Reply))
	c.tokens = append(c.tokens, int32(min(t.Tokens, 1<<30))) //nolint:gosec // bounded
}

// entryColumns has entries, column by column.
type entryColumns struct {
	id                                                      []string
	at                                                      []time.Time
	key, user, session, endpoint, model, upstream, outcome  []string
	team, owner                                             []string
	stream, cached, estimated                               []bool
	prompt, completion, money, attempts, queue, first, took []int64
	unit, kinds, price                                      []string
	units                                                   []int64
}

func (c *entryColumns) add(e *store.Entry) {
	for _, f := range []struct {
		to   *[]string
		text string
	}{{&c.id, e.ID}, {&c.key, e.Key}, {&c.user, e.User}, {&c.session, e.Session}, {&c.endpoint, e.Endpoint}, {&c.model, e.Model}, {&c.upstream, e.Upstream}, {&c.outcome, e.Outcome}, {&c.team, e.Team}, {&c.owner, e.Owner}, {&c.unit, e.Unit}, {&c.kinds, e.Kinds}, {&c.price, e.Price}} {
		*f.to = append(*f.to, clean(f.text))
	}
	c.at = append(c.at, e.At)
	c.stream, c.cached, c.estimated = append(c.stream, e.Stream), append(c.cached, e.Cached), append(c.estimated, e.Estimated)
	for _, f := range []struct {
		to *[]int64
		n  int64
	}{{&c.prompt, e.Prompt}, {&c.completion, e.Completion}, {&c.money, e.Money}, {&c.attempts, e.Attempts},
		{&c.queue, e.Queue.Microseconds()}, {&c.first, e.FirstByte.Microseconds()}, {&c.took, e.Took.Microseconds()}, {&c.units, e.Units}} {
		*f.to = append(*f.to, f.n)
	}
}
