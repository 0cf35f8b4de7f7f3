package registry

import (
	"context"
	"strings"

	"dyno/services/control/client"
	"dyno/services/control/resource"
)

// A Follower keeps the documents of a kind up to date, from the control plane's changes. After a gap the control
// plane sends all of them again. It is for one goroutine.
type Follower[D any] struct {
	watch  *client.Watch
	prefix string
	known  map[string]*followed[D] // by the documents' names
	at     uint64                  // the present snapshot
}

type followed[D any] struct {
	version int64
	d       D
	err     error
}

// Follow follows the documents whose names begin with a prefix. Close ends that.
func Follow[D any](r *Registry, prefix string) (*Follower[D], error) {
	w, err := r.client.Watch(client.Query{Kinds: []resource.Kind{resource.Configs}})
	if err != nil {
		return nil, err
	}
	return &Follower[D]{watch: w, prefix: prefix, known: map[string]*followed[D]{}}, nil
}

// Close ends the watch.
func (f *Follower[D]) Close() { f.watch.Close() }

// Next waits for a change. It returns all documents by the rest of their names, and lists the unreadable ones.
// current is false while the control plane does not answer.
func (f *Follower[D]) Next(ctx context.Context) (all map[string]D, broken []Broken, current bool, err error) {
	s, err := f.watch.Next(ctx, f.at)
	if err != nil {
		return nil, nil, false, err
	}
	f.at = s.Generation
	known := map[string]*followed[D]{}
	all = map[string]D{}
	for _, item := range s.Items {
		c, isConfig := item.Resource.(*resource.Config)
		if !isConfig || !strings.HasPrefix(c.Name, f.prefix) {
			continue
		}
		of := f.known[c.Name]
		if of == nil || of.version != item.Version {
			of = &followed[D]{version: item.Version}
			of.err = decodeListed(c, &of.d)
		}
		known[c.Name] = of
		if name := strings.TrimPrefix(c.Name, f.prefix); of.err != nil {
			broken = append(broken, newBroken(name, of.err))
		} else {
			all[name] = of.d
		}
	}
	f.known = known
	return all, broken, s.Current, nil
}
