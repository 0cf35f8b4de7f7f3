package engine

import (
	"time"

	"dyno/load/engine/clock"
	"dyno/load/wire"
)

// A Goal bounds what users of a language model feel. A bound of 0 is none.
type Goal struct {
	First time.Duration // from when the request was due until the first piece of the answer
	Each  time.Duration // per token after the first, on average over the answer
}

// holds tells whether an answer keeps within the goal.
func (g Goal) holds(first, each int64) bool {
	return (g.First == 0 || first <= int64(g.First)) && (g.Each == 0 || each <= int64(g.Each))
}

// Tokens sums up answers of language models: good ones that ended inside the window, whenever
// they were due.
type Tokens struct {
	Count    uint64 // tokens
	Within   uint64 // answers that keep within the goal
	Prompt   uint64 // tokens of the questions, where the server says of how many they are
	NoPrompt uint64 // answers where it does not
}

// addTokens adds what another worker, or another engine, counted; nil is nothing.
func (r *Result) addTokens(o *Tokens) {
	if o == nil {
		return
	}
	if r.Tokens == nil {
		r.Tokens = &Tokens{}
	}
	r.Tokens.add(o)
}

func (t *Tokens) add(o *Tokens) {
	t.Count += o.Count
	t.Within += o.Within
	t.Prompt += o.Prompt
	t.NoPrompt += o.NoPrompt
}

// asked returns what the worker counted; nil if its clients ask no language models.
func (w *worker) asked() *Tokens {
	for i := range w.conns {
		if client := w.conns[i].client; client != nil { // with TLS, one that never agreed on a protocol has none
			if _, ok := client.(wire.TokenCounter); !ok {
				return nil
			}
			return &w.tokens
		}
	}
	return nil
}

// recordTokens takes the figures of a good response, if it is an answer of a language model.
func (w *worker) recordTokens(e int32, x *exchange, c *connection, r clock.Reading) {
	answer, ok := c.client.(wire.TokenCounter)
	if !ok {
		return
	}
	d := &w.messages[e]
	if d.received == 0 {
		return
	}
	n, shown := answer.Tokens(), answer.Shown()
	first, each := d.first-x.intended, int64(0)
	// Without several pieces nothing is known of the time between tokens.
	several := shown > 1 && d.received > 1
	if several {
		each = max(0, d.last-d.first) / int64(shown-1)
	}
	var step *answerFigures
	if w.users != nil {
		step = w.users.figuresOf(x.user).answers
	}
	if r.Arrived >= w.windowStart && r.Arrived < w.windowEnd {
		counted := Tokens{Count: uint64(n), Prompt: uint64(answer.Prompt())}
		if counted.Prompt == 0 {
			counted.NoPrompt = 1
		}
		if w.engine.config.Messages.Goal.holds(first, each) {
			counted.Within = 1
		}
		w.tokens.add(&counted)
		if step != nil {
			step.add(&counted)
		}
	}
	if x.window != inside {
		return
	}
	w.interval.latency[FirstToken].Record(first)
	if several {
		w.interval.latency[TokenTime].Record(each)
	}
	if step == nil {
		return
	}
	step.first.Record(first)
	if several {
		step.each.Record(each)
	}
}
