package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"sync"
	"time"

	"dyno/services/control/resource"
)

// A Query selects resources: kinds in a namespace, all of them or by name. The name of an instance is its service's.
type Query struct {
	Namespace string // "" is the Client's
	Kinds     []resource.Kind
	Names     []string
	Prefix    string `json:",omitempty"` // of names, instead of Names
}

// key returns a name for the query's cache file.
func (q Query) key() string {
	text, err := json.Marshal(q)
	if err != nil {
		return fmt.Sprint(q) // unreachable: it has only texts
	}
	return string(text)
}

// An Item is a resource for this program. A configuration's Data is that of the gray release if the program is chosen
// for it. A secret configuration has no content here: the program requests it by Do (GET
// /v1/configs/NAME/content). Items are shared: their maps and slices must not be changed.
type Item struct {
	resource.Ref
	Version  int64           `json:"version"`
	Released bool            `json:"released,omitempty"`
	Body     json.RawMessage `json:"resource"`
	// Resource is a *resource.Policy, *resource.Config or *resource.Instance.
	Resource any `json:"-"`
}

// A Snapshot is the state of all watched resources at one time.
type Snapshot struct {
	// Generation grows with each change of the fields below.
	Generation uint64
	// Items are in the order of kind, namespace, name and ID.
	Items []Item
	// Current reports whether a server has said that Items are complete, and is still heard. Otherwise Items are the
	// last known state, as of At: of this program, or of an earlier one, from the cache.
	Current bool
	At      time.Time
}

// Instances returns the items' instances that accept requests.
func (s Snapshot) Instances() (list []*resource.Instance) {
	for i := range s.Items {
		if one, ok := s.Items[i].Resource.(*resource.Instance); ok && one.Accepts() {
			list = append(list, one)
		}
	}
	return list
}

// A Watch keeps the resources of a query up to date. Its methods may be called from any goroutine.
type Watch struct {
	client *Client
	query  Query
	file   string // of the cache; "" has none
	stop   context.CancelFunc
	ended  chan struct{}

	mu         sync.Mutex // guards what follows
	items      map[string]Item
	filling    map[string]Item // during a full snapshot; nil otherwise
	token      string          // the last change in items
	generation uint64
	current    bool
	at         time.Time
	moved      chan struct{}                 // closed when generation grows
	dirty      bool                          // items differ from the cache
	server     string                        // the watched server, whose ledger knows the program
	acks       map[resource.Ref]resource.Ack // not sent yet
	answered   map[resource.Ref]resource.Ack // the last one for each resource
	asked      chan struct{}                 // capacity 1: there are acks
}

// Watch begins to watch. The contents of the cache are available at once.
func (c *Client) Watch(q Query) (*Watch, error) {
	if q.Namespace == "" {
		q.Namespace = c.cfg.Namespace
	}
	for _, k := range q.Kinds {
		if !k.Known() {
			return nil, fmt.Errorf("kind: %q: must be %s", k, resource.KindNames())
		}
	}
	if len(q.Kinds) == 0 {
		return nil, errors.New("kind: must be given: " + resource.KindNames())
	}
	ctx, cancel := context.WithCancel(c.ctx)
	w := &Watch{
		client: c, query: q, stop: cancel, ended: make(chan struct{}), items: map[string]Item{},
		moved: make(chan struct{}), acks: map[resource.Ref]resource.Ack{}, answered: map[resource.Ref]resource.Ack{}, asked: make(chan struct{}, 1),
	}
	if c.cfg.Cache != "" {
		w.file = cacheFile(c.cfg.Cache, c.cfg, q)
		if err := w.load(); err != nil {
			c.log.Warn("the cache is not used", "file", w.file, "error", err)
		}
	}
	if err := c.begin(func() {
		defer close(w.ended)
		defer cancel()
		w.run(ctx)
	}); err != nil {
		cancel()
		return nil, err
	}
	return w, nil
}

// Close ends the watch, and saves its last state to the cache.
func (w *Watch) Close() {
	w.stop()
	<-w.ended
}

// Next waits for a generation other than the given one, and returns it. 0 is none: the first call waits until a
// server or the cache gives any data.
func (w *Watch) Next(ctx context.Context, generation uint64) (Snapshot, error) {
	for {
		w.mu.Lock()
		if w.generation > generation {
			s := w.snapshot()
			w.mu.Unlock()
			return s, nil
		}
		moved := w.moved
		w.mu.Unlock()
		select {
		case <-moved:
		case <-w.ended:
			return Snapshot{}, ErrClosed
		case <-ctx.Done():
			return Snapshot{}, context.Cause(ctx)
		}
	}
}

// snapshot copies the present state.
func (w *Watch) snapshot() Snapshot {
	s := Snapshot{Generation: w.generation, Current: w.current, At: w.at, Items: make([]Item, 0, len(w.items))}
	for _, i := range w.items {
		s.Items = append(s.Items, i)
	}
	slices.SortFunc(s.Items, func(a, b Item) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID))
	})
	return s
}

// move wakes the callers that wait for a change.
func (w *Watch) move() {
	w.generation++
	close(w.moved)
	w.moved = make(chan struct{})
}

// run watches, answers and writes the cache until ctx ends.
func (w *Watch) run(ctx context.Context) {
	var helpers sync.WaitGroup
	helpers.Go(func() { w.answer(ctx) })
	helpers.Go(func() { w.keep(ctx) })
	defer helpers.Wait()
	query := url.Values{"namespace": {w.query.Namespace}, "name": w.query.Names}
	if w.query.Prefix != "" {
		query.Set("prefix", w.query.Prefix)
	}
	for _, k := range w.query.Kinds {
		query.Add("kind", string(k))
	}
	if w.client.cfg.Name != "" {
		query.Set("client", w.client.cfg.Name)
	}
	for name, value := range w.client.cfg.Labels {
		query.Add("label", name+"="+value)
	}
	w.client.watch(ctx, query, reader{w.begin, w.heard, w.take, w.lost})
}

// begin notes the server of a stream, and returns the token of what is known.
func (w *Watch) begin(server string) (token string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.server = server
	return w.token
}

// lost notes the end of a stream.
func (w *Watch) lost(error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.filling = nil
	if w.current {
		w.current = false
		w.move()
	}
}

// heard notes a heartbeat. A server that cannot resume begins with resync; one that can, and has no changes, sends a
// heartbeat at once.
func (w *Watch) heard() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.token != "" && w.filling == nil && !w.current {
		w.noteResumed()
		w.at = time.Now()
		w.move()
	}
}

// noteResumed notes that a server resumes the watch. It may be another one, which does not know yet what was applied.
func (w *Watch) noteResumed() {
	if w.current {
		return
	}
	w.current = true
	for r, a := range w.answered {
		if i, ok := w.items[r.Path()]; ok && i.Version == a.Version {
			w.send(a)
		} else {
			delete(w.answered, r)
		}
	}
}

// take applies an event.
func (w *Watch) take(e event) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch e.kind {
	case "resync":
		// The present items stay until the snapshot is complete. A client that is cut off before starts again.
		w.filling, w.token = map[string]Item{}, ""
		if w.current {
			w.current = false
			w.move()
		}
		return nil
	case "synced":
		if w.filling == nil {
			return fmt.Errorf("%w: synced without resync", errEvent)
		}
		w.items, w.filling = w.filling, nil
		w.noteResumed()
	case "put", "remove":
		var i Item
		if err := json.Unmarshal(e.data, &i); err != nil {
			return fmt.Errorf("%w: %w", errEvent, err)
		}
		if err := i.Check(); err != nil {
			return fmt.Errorf("%w: %w", errEvent, err)
		}
		into := w.items
		if w.filling != nil {
			into = w.filling
		}
		if e.kind == "remove" {
			delete(into, i.Path())
			delete(w.acks, i.Ref)
			delete(w.answered, i.Ref)
		} else {
			var err error
			if i.Resource, err = resource.Parse(i.Kind, i.Body); err != nil {
				return fmt.Errorf("%w: %s: %w", errEvent, i.Ref, err)
			}
			into[i.Path()] = i
		}
		if w.filling != nil {
			return nil
		}
		w.noteResumed()
	default:
		return nil // of a later server
	}
	if e.ids {
		w.token = e.id
	}
	w.at = time.Now()
	w.dirty = true
	w.move()
	return nil
}
