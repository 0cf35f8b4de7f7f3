package client

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"

	"dyno/services/control/resource"
	"dyno/services/internal/wait"
)

// Applied says that the program runs a version, Refused that it does not and why: it
// goes on with what it had. The control plane's rollout shows both. They return at once;
// a newer answer for a resource replaces an older one that is not sent yet. A server that
// has forgotten them is told again. Without a Name the program is in no rollout, and they
// do nothing.
func (w *Watch) Applied(i Item) {
	w.acknowledge(resource.Ack{Ref: i.Ref, Version: i.Version, State: resource.Applied})
}

// Refused says that the program does not run a version, and why.
func (w *Watch) Refused(i Item, reason string) {
	// A reason is for people to read: what a failed program has quoted must not keep it from them.
	w.acknowledge(resource.Ack{Ref: i.Ref, Version: i.Version, State: resource.Refused, Reason: strings.ToValidUTF8(reason, "\uFFFD")})
}

func (w *Watch) acknowledge(a resource.Ack) {
	if w.client.cfg.Name == "" {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if old, ok := w.answered[a.Ref]; ok && old.Version > a.Version {
		return
	}
	if _, known := w.items[a.Path()]; !known {
		return // it is gone, and what is known bounds what waits
	}
	w.answered[a.Ref] = a
	w.send(a)
}

// send has an ack sent.
func (w *Watch) send(a resource.Ack) {
	w.acks[a.Ref] = a
	select {
	case w.asked <- struct{}{}:
	default:
	}
}

// maxAcks is how many go in one request.
const maxAcks = 1000

// answer sends acks until ctx ends.
func (w *Watch) answer(ctx context.Context) {
	route := w.client.route()
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.asked:
		}
		for {
			w.mu.Lock()
			some := slices.Collect(maps.Values(w.acks))
			some, server := some[:min(len(some), maxAcks)], w.server
			w.mu.Unlock()
			if len(some) == 0 {
				break
			}
			body := map[string]any{"client": w.client.cfg.Name, "acks": some}
			if _, err := w.client.call(ctx, server, http.MethodPost, "/v1/acks", nil, body); err != nil && !lasting(err) {
				pause := route.failed(err)
				w.client.log.Warn("answers are not sent", "error", err, "again_after", pause)
				if !wait.For(ctx, pause) {
					return
				}
				continue
			} else if err != nil {
				w.client.log.Warn("answers are refused", "error", err)
			}
			route.good()
			w.mu.Lock()
			for _, a := range some {
				if w.acks[a.Ref] == a {
					delete(w.acks, a.Ref)
				}
			}
			w.mu.Unlock()
		}
	}
}
