package engine

import (
	"dyno/load/engine/clock"
	"dyno/load/engine/record"
	"dyno/load/wire"
)

// asksModels tells whether the worker's clients ask language models.
func (w *worker) asksModels() bool {
	for i := range w.conns {
		if client := w.conns[i].client; client != nil { // with TLS, one that never agreed on a protocol has none
			_, ok := client.(wire.TokenCounter)
			return ok
		}
	}
	return false
}

// recordTokens takes the figures of a good response, if it is an answer of a language model.
func (w *worker) recordTokens(e int32, x *exchange, c *connection, r clock.Reading) {
	client, ok := c.client.(wire.TokenCounter)
	if !ok {
		return
	}
	d := &w.messages[e]
	if d.received == 0 {
		return
	}
	a := record.Answer{First: d.first - x.Intended, Tokens: client.Tokens(), Prompt: client.Prompt()}
	// Without several pieces nothing is known of the time between tokens.
	if shown := client.Shown(); shown > 1 && d.received > 1 {
		a.Several, a.Each = true, max(0, d.last-d.first)/int64(shown-1)
	}
	w.rec.Answer(&x.Request, w.step(x), r, &a, w.engine.config.Messages.Goal)
}
