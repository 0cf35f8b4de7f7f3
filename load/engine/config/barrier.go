package config

import (
	"context"
	"time"

	"dyno/load/wire"
)

// A Barrier connects engines of several processes that carry one load together. One process may have
// too few descriptors for the connections. They begin together. Where there are subscribers, each
// engine learns what the others have published, so that its subscribers know what is missing. Its
// methods block until the others have come as far, or fail. They are called once each, in this order,
// and not at all by an engine that fails before; WaitPublished only with subscribers.
type Barrier interface {
	// Join tells the others of this engine, all of whose connections have been tried, and
	// waits for theirs. It returns what all of them are together, and when the warm-up
	// begins.
	Join(ctx context.Context, self Party) (all Party, start time.Time, err error)

	// WaitPublished tells the others what this engine has published, which is done with it,
	// and returns what all have.
	WaitPublished(ctx context.Context, published []wire.Source) (all []wire.Source, err error)
}

// A Party is what an engine brings to a load.
type Party struct {
	Threads []int         // that carry it: ids as of gettid(2)
	Sources []wire.Source // that may publish
	// Epoch is when the warm-up begins for all, as Unix time in nanoseconds by their agreed clock: what
	// they publish is stamped by it. 0: each has its machine's.
	Epoch int64
}
