package plane

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"dyno/services/control/access"
	"dyno/services/control/catalog"
	"dyno/services/control/resource"
	"dyno/services/control/store"
)

// TestDecide: what a change does to the store follows from the facts alone.
func TestDecide(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	item := func(k resource.Kind, version, revision int64, doc resource.Document) *catalog.Item {
		r := doc.Ref()
		return &catalog.Item{Ref: r, Path: r.Path(), Version: version, Revision: revision, Body: []byte("{}"), Resource: doc}
	}
	config := &resource.Config{Namespace: "default", Name: "a"}
	counter := &resource.Counter{Namespace: "default", Name: "c"}
	put := func(doc resource.Document) change {
		return change{ref: doc.Ref(), act: resource.Updated, next: func(*catalog.Item) (resource.Document, error) { return doc, nil }}
	}
	remove := func(r resource.Ref) change {
		return change{ref: r, act: resource.Removed, next: func(*catalog.Item) (resource.Document, error) { return nil, nil }}
	}
	with := func(c change, alter func(*change)) change {
		alter(&c)
		return c
	}
	old := item(resource.Configs, 4, 77, config)
	refusal := errors.New("refused")
	for _, c := range []struct {
		name   string
		change change
		o      Options
		facts  facts
		want   string // conditions -> operations
		err    error  // one that it is
	}{
		{name: "a new one", change: put(config), want: "config/default/a=0 gone=0 -> config/default/a:1"},
		{name: "of a kind without history", change: put(counter), want: "counter/default/c=0 -> counter/default/c:1"},
		{name: "another version", change: put(config), facts: facts{old: old}, want: "config/default/a=77 -> history/4:4 config/default/a:5"},
		{name: "after a removal", change: put(config), facts: facts{gone: store.KV{Key: "gone", Value: resource.EncodeVersioned(8, nil), Revision: 90}}, want: "config/default/a=0 gone=90 -> -gone config/default/a:9"},
		{name: "removed", change: remove(config.Ref()), facts: facts{old: old}, want: "config/default/a=77 -> history/4:4 -config/default/a gone:4"},
		{name: "with a key", change: put(counter), o: Options{Key: "k"}, want: "counter/default/c=0 key=0 -> counter/default/c:1 key"},
		{name: "while another key is as it was", change: with(put(counter), func(c *change) {
			c.while = []requirement{{store.Condition{Key: store.State + "session/default/s", Revision: 5}, refusal}}
		}), want: "session/default/s=5 counter/default/c=0 -> counter/default/c:1"},
		{name: "delegated", change: put(config), facts: facts{delegate: func(Caller, resource.Ref, *catalog.Item, any) ([]store.Condition, error) {
			return []store.Condition{{Key: store.State + "role/*/r", Revision: 6}}, nil
		}}, want: "config/default/a=0 gone=0 role/*/r=6 -> config/default/a:1"},

		{name: "not delegated", change: put(config), facts: facts{delegate: func(Caller, resource.Ref, *catalog.Item, any) ([]store.Condition, error) { return nil, refusal }}, err: refusal},
		{name: "must be new", change: with(put(config), func(c *change) { c.mustBeNew = true }), facts: facts{old: old}, err: ErrExists},
		{name: "another tag", change: put(config), o: Options{IfMatch: `"x"`}, facts: facts{old: old}, err: ErrPrecondition},
		{name: "a tag of nothing", change: put(config), o: Options{IfMatch: "*"}, err: ErrPrecondition},
		{name: "exists", change: put(config), o: Options{IfNoneMatch: "*"}, facts: facts{old: old}, err: ErrPrecondition},
		{name: "full", change: put(config), facts: facts{rooms: []room{{"configurations", 3, 3}}}, err: &resource.TooMany{}},
		{name: "a place less", change: put(config), facts: facts{rooms: []room{{"configurations", 3, 2}}}, want: "config/default/a=0 gone=0 -> config/default/a:1"},
		{name: "full, for a present one", change: put(config), facts: facts{old: old, rooms: []room{{"configurations", 3, 3}}}, want: "config/default/a=77 -> history/4:4 config/default/a:5"},
		{name: "too large", change: put(&resource.Config{Namespace: "default", Name: "a", Content: strings.Repeat("x", 1<<20)}), facts: facts{limits: resource.Limits{ConfigBytes: 1 << 10}}, err: resource.Invalid{}},
		{name: "refused by itself", change: with(put(config), func(c *change) {
			c.next = func(*catalog.Item) (resource.Document, error) { return nil, refusal }
		}), err: refusal},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := c.facts
			f.by, f.now = Caller{Principal: &access.Principal{Name: "me"}}, now
			if f.limits == (resource.Limits{}) {
				f.limits = resource.DefaultLimits()
			}
			d, err := decide(c.change, c.o, f)
			if c.err != nil {
				if !isOf(err, c.err) {
					t.Errorf("%v: want %v", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := written(d.request, c.change.ref.Path()); got != c.want {
				t.Errorf("%s\nwant %s", got, c.want)
			}
			if d.Created != (f.old == nil) || d.Item == nil || len(d.request.Note) == 0 {
				t.Errorf("%+v", d.Result)
			}
			if doc, ok := d.Resource.(resource.Document); ok && !d.Removed && (doc.Changed().By != "me" || !doc.Changed().At.Equal(now)) {
				t.Errorf("the change is noted as %+v", doc.Changed())
			}
		})
	}
}

// isOf reports whether an error is another, or of its type.
func isOf(err, other error) bool {
	return errors.Is(err, other) || errors.As(other, new(*resource.TooMany)) && errors.As(err, new(*resource.TooMany)) ||
		errors.As(other, new(resource.Invalid)) && errors.As(err, new(resource.Invalid))
}

// written returns a request about a resource as text: KEY=REVISION for conditions, KEY:VERSION and -KEY for operations.
func written(r store.Request, path string) string {
	short := func(key string) string {
		switch at := strings.LastIndexByte(key, '/'); {
		case key == goneKey(path):
			return "gone"
		case strings.HasPrefix(key, historyFolder(path)):
			return "history/" + strings.TrimLeft(key[at+1:], "0")
		case strings.HasPrefix(key, store.Log+"key/"):
			return "key"
		}
		return strings.TrimPrefix(key, store.State)
	}
	var words []string
	for _, c := range r.If {
		words = append(words, fmt.Sprintf("%s=%d", short(c.Key), c.Revision))
	}
	words = append(words, "->")
	for _, op := range r.Then {
		version, _, err := resource.DecodeVersioned(op.Value)
		switch {
		case op.Delete:
			words = append(words, "-"+short(op.Key))
		case op.Expires || err != nil:
			words = append(words, short(op.Key))
		default:
			words = append(words, fmt.Sprintf("%s:%d", short(op.Key), version))
		}
	}
	return strings.Join(words, " ")
}
