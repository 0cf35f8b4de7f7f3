package bot

import (
	"dyno/services/bot/buffer"
	"dyno/services/bot/cache"
	"dyno/services/bot/middleware"
	"dyno/services/bot/openai"
	"dyno/services/bot/upstream"
)

// Parts replaces parts of the gateway in programs that measure them. A part that is not set is the gateway's own.
// Answers are equal with all parts.
type Parts struct {
	// Codec reads and writes JSON.
	Codec openai.Codec
	// Buffers lends memory for requests and answers, and Readers lends readers of streams.
	Buffers buffer.Lender
	Readers openai.Readers
	// Around puts layers around a route's handler.
	Around func(layers []middleware.Layer, method, path string, h middleware.Handler) middleware.Handler
	// Table makes the table of the cache, which keeps at most the given bytes of answers.
	Table func(bytes int64) cache.Table[*CachedAnswer]
}

// orOwn fills in the gateway's own parts.
func (p Parts) orOwn() Parts {
	if p.Codec.JSON == nil {
		p.Codec = openai.Standard()
	}
	if p.Buffers == nil {
		p.Buffers = &buffer.Pool{}
	}
	if p.Readers == nil {
		p.Readers = &openai.ReaderPool{}
	}
	if p.Around == nil {
		p.Around = middleware.Around
	}
	if p.Table == nil {
		p.Table = func(bytes int64) cache.Table[*CachedAnswer] { return cache.NewSharded[*CachedAnswer](bytes) }
	}
	return p
}

// A CachedAnswer is an answer as the cache keeps it.
type CachedAnswer struct{ *upstream.Answer }

// Size implements cache.Value.
func (a *CachedAnswer) Size() int64 { return int64(len(a.Body) + len(a.Reply.Text) + 256) }
