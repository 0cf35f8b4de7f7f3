package client

import (
	"context"
	"net/http"
	"net/url"
	"sync"
	"time"

	"dyno/services/control/resource"
)

// A Registration keeps an instance registered until it is closed. Its methods may be
// called from any goroutine.
type Registration struct {
	client *Client
	stop   context.CancelFunc
	ended  chan struct{}
	poke   chan struct{} // capacity 1: the instance has changed

	mu       sync.Mutex // guards what follows
	instance resource.Instance
	changed  int // counts calls of Update
	sent     int // the last of these that the server has
	until    time.Time
	err      error
	settled  chan struct{} // closed when err or sent belongs to the newest change
}

// leaseOf is for how long an instance stays registered without a sign of life. One with checks needs none: its signs
// only find out whether the control plane still knows it.
func leaseOf(i resource.Instance) time.Duration {
	if i.Checked() {
		i.TTL, i.Checks = resource.DefaultTTL, nil
	}
	return i.Lease()
}

// beatsPerLease is the number of heartbeats per lease: two may be lost.
const beatsPerLease = 3

// Register registers an instance, and keeps it registered. It returns at once; Ready waits for the control plane. The
// error is resource.Invalid if the instance can never be registered. Without a weight it gets the usual one: an
// instance that wants no requests says so by its status.
func (c *Client) Register(i resource.Instance) (*Registration, error) {
	if err := c.complete(&i); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(c.ctx)
	r := &Registration{client: c, stop: cancel, ended: make(chan struct{}), poke: make(chan struct{}, 1), instance: i, changed: 1, settled: make(chan struct{})}
	if err := c.begin(func() {
		defer close(r.ended)
		defer cancel()
		r.keep(ctx)
	}); err != nil {
		cancel()
		return nil, err
	}
	return r, nil
}

// complete fills in what may be left out, and checks the instance.
func (c *Client) complete(i *resource.Instance) error {
	if i.Namespace == "" {
		i.Namespace = c.cfg.Namespace
	}
	if i.Weight == 0 {
		i.Weight = resource.DefaultWeight
	}
	i.Default()
	return i.Check(resource.DefaultLimits())
}

// Update changes the registered status, weight and metadata. It must be the same instance.
func (r *Registration) Update(i resource.Instance) error {
	if err := r.client.complete(&i); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if i.Ref() != r.instance.Ref() {
		return resource.Invalid{{Pointer: "#", Detail: "is " + i.Ref().String() + ", and " + r.instance.Ref().String() + " is registered here"}}
	}
	r.instance = i
	r.changed++
	if r.err != nil || r.sent == r.changed-1 {
		r.settled, r.err = make(chan struct{}), nil
	}
	select {
	case r.poke <- struct{}{}:
	default:
	}
	return nil
}

// Ready waits until the control plane knows the instance in its present form. Its error says why the control plane
// refuses it for good; the Registration still retries, at long intervals.
func (r *Registration) Ready(ctx context.Context) error {
	for {
		r.mu.Lock()
		settled, err, done := r.settled, r.err, r.sent == r.changed
		r.mu.Unlock()
		if err != nil || done {
			return err
		}
		select {
		case <-settled:
		case <-r.ended:
			return ErrClosed
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Until returns when the registration expires if no further heartbeat is answered: one lease after the latest
// answered heartbeat began. It is zero until the control plane knows the instance.
func (r *Registration) Until() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.until
}

// Close removes the instance. The error says that the control plane could not be reached: then the instance expires
// with its lease.
func (r *Registration) Close(ctx context.Context) error {
	r.stop()
	<-r.ended
	route := r.client.route()
	r.mu.Lock()
	path, query := r.path()
	r.mu.Unlock()
	var err error
	for range r.client.cfg.Servers {
		if _, err = r.client.call(ctx, route.server(), http.MethodDelete, path, query, nil); err == nil || missing(err) {
			return nil
		}
		route.failed(err)
	}
	return err
}

// path returns the instance's path in the API.
func (r *Registration) path() (path string, query url.Values) {
	return r.instance.Ref().Address(), url.Values{"namespace": {r.instance.Namespace}}
}

// keep registers the instance, and then sends heartbeats.
func (r *Registration) keep(ctx context.Context) {
	route := r.client.route()
	known := false
	for ctx.Err() == nil {
		r.mu.Lock()
		i, number := r.instance, r.changed
		path, query := r.path()
		known = known && r.sent == number
		r.mu.Unlock()
		var err error
		asked := time.Now()
		if known {
			// A part of the lease bounds a request, so that another server can still be asked in time.
			within, cancel := context.WithTimeout(ctx, leaseOf(i)/beatsPerLease)
			_, err = r.client.call(within, route.server(), http.MethodPost, path+"/heartbeat", query, nil)
			cancel()
			if missing(err) {
				r.client.log.Warn("the control plane does not know the instance: it is registered again", "instance", i.Ref().String())
				known = false
				continue
			}
		} else {
			_, err = r.client.call(ctx, route.server(), http.MethodPut, path, query, body(i))
		}
		pause := spread(leaseOf(i) / beatsPerLease)
		if err != nil && ctx.Err() == nil {
			pause = min(route.failed(err), pause)
			r.client.log.Warn("not registered, or no heartbeat", "instance", i.Ref().String(), "error", err, "again_after", pause)
		} else {
			route.good()
			known = true
		}
		if err == nil {
			r.mu.Lock()
			r.until = asked.Add(leaseOf(i))
			r.mu.Unlock()
		}
		if lasting(err) {
			pause = r.client.cfg.MaxPause
		}
		r.settle(number, err)
		if !r.rest(ctx, pause) {
			return
		}
	}
}

// body returns the document that registers an instance, without who changed it: a client cannot set that.
func body(i resource.Instance) any {
	return struct {
		Address         string            `json:"address"`
		Port            int               `json:"port"`
		Zone            string            `json:"zone,omitempty"`
		Weight          int               `json:"weight"`
		Metadata        map[string]string `json:"metadata,omitempty"`
		Status          resource.Status   `json:"status"`
		TTL             float64           `json:"ttl_seconds"`
		Checks          []resource.Check  `json:"checks,omitempty"`
		DeregisterAfter float64           `json:"deregister_after_seconds,omitempty"`
	}{i.Address, i.Port, i.Zone, i.Weight, i.Metadata, i.Status, i.TTL, i.Checks, i.DeregisterAfter}
}

// settle notes the result of sending a version of the instance.
func (r *Registration) settle(number int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if number != r.changed {
		return // a newer version is not sent yet
	}
	switch {
	case err == nil && r.sent < number:
		r.sent, r.err = number, nil
	case lasting(err) && r.sent < number && r.err == nil:
		r.err = err
	default:
		return
	}
	select {
	case <-r.settled:
	default:
		close(r.settled)
	}
}

// rest waits until the next heartbeat is due or the instance has changed; it returns false when ctx has ended.
func (r *Registration) rest(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-r.poke:
	case <-t.C:
	}
	return true
}
