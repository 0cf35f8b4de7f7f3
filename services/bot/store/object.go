package store

import (
	"context"
	"time"
)

// An Object is what an upstream keeps for a client: a response, a file or a batch. The store does not have its contents.
type Object struct {
	Kind, ID        string
	Key, Team, User string // who made it; "" is none
	Upstream, Model string // where it is: a deployment, and a client's name of its model
	At              time.Time
	// Prompt and Completion estimate the tokens of the requests in a file.
	Prompt, Completion int64
	// Bill is what was charged by an estimate, until the upstream says what was used; "" is nothing. Due is when the upstream
	// is asked next; zero is never.
	Bill string
	Due  time.Time
}

// BelongsTo reports whether the key, team and user of another object may use this one. It is the team's, if the key has
// one. A key without a user may use what its users made.
func (o Object) BelongsTo(by Object) bool {
	return o.Team == by.Team && (o.Team != "" || o.Key == by.Key) && (by.User == "" || o.User == by.User)
}

// Bounds of objects, of each kind. The oldest go first.
const (
	ObjectAge  = 90 * 24 * time.Hour
	MaxObjects = 1_000_000
)

// Lasting are kinds that stay at upstreams until they are deleted. Their age does not matter.
var Lasting = map[string]bool{"conversation": true, "file": true, "vector_store": true}

// Objects keeps which objects there are.
type Objects interface {
	// Keep keeps objects of a client, except for those of whose kind and ID there is one. It keeps all or none.
	Keep(ctx context.Context, list ...Object) error
	// Forget removes an object.
	Forget(ctx context.Context, o Object) error
	// Objects returns the object of a kind and an ID. Without an ID it returns up to most that belong to the key, team and
	// user of by, the newest first. They come after the one with the ID after; "" is the newest.
	Objects(ctx context.Context, by Object, after string, most int) ([]Object, error)
	// Due returns up to most objects that are due before a time, the first one first.
	Due(ctx context.Context, before time.Time, most int) ([]Object, error)
	// Bill replaces the bill of an object, and when it is due, unless its bill was changed since it was read. With a time, it
	// changes nothing either if the time was changed. It reports whether it has replaced them: of several gateways, one does.
	Bill(ctx context.Context, o Object, bill string, due time.Time) (bool, error)
}
