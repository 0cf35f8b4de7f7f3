// Package follow makes a control plane a follower: it copies the resources of another one, the primary, by a watch. In the
// same way, a control plane copies the instances of other centres.
package follow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"dyno/internal/fields"
	"dyno/internal/secretfile"
	"dyno/services/control/client"
	"dyno/services/control/plane"
	"dyno/services/control/resource"
)

// Config says whom to follow.
type Config struct {
	Servers []string        `yaml:"follow" otherwise:"nobody" doc:"follow the control plane at these addresses of its replicas, such as https://10.0.0.1:7100: copy it, and change nothing"`
	Token   secretfile.Text `yaml:"follow_token_file" doc:"the file of the token to show it, or the centres; what that may read is copied"`
	CA      string          `yaml:"follow_ca" kind:"path" otherwise:"the system's" doc:"certificates that the other's are signed by"`
	// Centres are addresses of other control planes by name, with spaces between those of one.
	Centres map[string]string `yaml:"centres" names:"any" most:"16" otherwise:"none" doc:"copy the instances of other control planes, for failover: those of their service shop are of shop@NAME here; as a flag: berlin=https://10.0.0.1:7100, with spaces between the addresses of several replicas"`
}

// Primary returns the address for changes; "" if nobody is followed.
func (c Config) Primary() string {
	if len(c.Servers) == 0 {
		return ""
	}
	return c.Servers[0]
}

// Check reports faults that the tags of fields cannot express.
func (c Config) Check(r *fields.Report) {
	r.Check(len(c.Servers)+len(c.Centres) > 0 || c.Token == "" && c.CA == "", "follow", "is missing: a token or a CA is for the other control plane", "give --follow or --centres too")
	r.Check(len(c.Servers) == 0 || len(c.Centres) == 0, "centres", "a follower copies only its primary", "either --follow or --centres")
	check := func(field, address string) {
		u, err := url.Parse(address)
		r.Check(err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "", field, fmt.Sprintf("%q is not an address", address), "such as https://10.0.0.1:7100")
	}
	for i, address := range c.Servers {
		check(fmt.Sprintf("follow[%d]", i), address)
	}
	for _, name := range c.CentreNames() {
		label := resource.Ref{Kind: resource.Policies, Namespace: name, Name: "x"}
		r.Check(label.Check() == nil, "centres", fmt.Sprintf("%q cannot be a name", name), "a-z, 0-9 and -")
		addresses := strings.Fields(c.Centres[name])
		r.Check(len(addresses) > 0, "centres."+name, "has no address", "such as https://10.0.0.1:7100")
		for _, address := range addresses {
			check("centres."+name, address)
		}
	}
}

// CentreNames returns the names of the other centres, in order.
func (c Config) CentreNames() []string { return slices.Sorted(maps.Keys(c.Centres)) }

// connect returns a client of another control plane, which has not connected yet.
func (c Config) connect(servers []string, log *slog.Logger) (*client.Client, error) {
	settings := client.Defaults()
	settings.Servers, settings.Token = servers, string(c.Token)
	if c.CA != "" {
		var err error
		if settings.TLS, err = secretfile.ClientTLS("follow_", c.CA, "", ""); err != nil {
			return nil, err
		}
	}
	settings.Silence, settings.MaxPause, settings.Logger = silence, maxPause, log
	other, err := client.New(settings)
	if err != nil {
		return nil, fmt.Errorf("follow: %w", err)
	}
	return other, nil
}

// Start makes a plane follow until end is called. It returns once there is a complete copy, perhaps from before the
// start: without one, clients would take an empty answer for the truth.
func Start(ctx context.Context, c Config, p *plane.Plane, log *slog.Logger) (end func(), err error) {
	primary, err := c.connect(c.Servers, log)
	if err != nil {
		return nil, err
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f := follower{ctx: running, plane: p, withheld: map[resource.Ref]bool{}}
		primary.Follow(running, f.begin, f.take, f.lost)
	}()
	end = func() {
		cancel()
		<-ended
		primary.Close()
	}
	if err := p.AwaitCopy(ctx); err != nil {
		end()
		return nil, err
	}
	return end, nil
}

// StartCentres makes a plane copy the instances of the other centres until end is called. One replica at a time does it.
// It does not wait for the first copy: they may be away.
func StartCentres(c Config, p *plane.Plane, log *slog.Logger) (end func(), err error) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	end = func() {
		cancel()
		running.Wait()
	}
	for _, name := range c.CentreNames() {
		other, err := c.connect(strings.Fields(c.Centres[name]), log.With("centre", name))
		if err != nil {
			end()
			return nil, err
		}
		running.Go(func() {
			defer other.Close()
			p.Lead(ctx, func(ctx context.Context) {
				f := follower{ctx: ctx, plane: p.Centre(name), withheld: map[resource.Ref]bool{}}
				other.Follow(ctx, f.begin, f.take, f.lost, resource.Instances)
			})
		})
	}
	return end, nil
}

// The primary sends a state twice a second. After silence, a stream counts as dead. It is renewed after maxStream, so
// that differences of the machines' clocks do not add up.
const (
	silence   = 10 * time.Second
	maxStream = time.Hour
	maxPause  = 5 * time.Second // between two attempts
	maxCopies = 256             // that are stored together, and events that wait meanwhile; then the stream waits
)

var errRenew = errors.New("the stream is renewed")

// copies stores what a follower reads.
type copies interface {
	CopyAll(context.Context, map[resource.Ref]plane.Copy) error
	CopyOnly(ctx context.Context, refs map[resource.Ref]bool, epoch string) error
	CopyOverdue(context.Context, plane.Overdue) error
	NoteFollowing(context.Context, func(*plane.Following)) error
}

var _, _ copies = (*plane.Plane)(nil), (*plane.Centre)(nil)

// A follower has the state of the copy. One goroutine reads a stream, and another one stores what it reads.
type follower struct {
	ctx    context.Context
	plane  copies
	events chan event
	failed chan error // why events cannot be stored

	token    string                      // of the last change that is stored; "" asks for everything
	reached  string                      // of the last change in copies
	copies   map[resource.Ref]plane.Copy // not stored yet
	state    *plane.State                // holds once these are stored; nil is none
	seen     map[resource.Ref]bool       // during a copy of everything; nil otherwise
	withheld map[resource.Ref]bool       // secrets that may not be read
	asked    time.Time                   // when the present stream was asked for
}

// An event is one of the stream.
type event struct {
	kind, id string
	data     []byte
}

// begin begins a stream.
func (f *follower) begin() (id string) {
	f.events, f.failed = make(chan event, maxCopies), make(chan error, 1)
	f.asked, f.copies, f.state, f.seen, f.reached = time.Now(), map[resource.Ref]plane.Copy{}, nil, nil, f.token
	go func() {
		defer close(f.failed)
		if err := f.storeEvents(); err != nil {
			f.failed <- err
		}
	}()
	return f.token
}

// take lets an event wait for the store.
func (f *follower) take(kind, id string, data []byte) error {
	select {
	case f.events <- event{kind, id, data}:
		return nil
	case err := <-f.failed:
		return err
	}
}

// lost notes the end of a stream.
func (f *follower) lost(err error) {
	close(f.events)
	for failure := range f.failed { // until what was read is stored
		err = failure
	}
	if !errors.Is(err, errRenew) {
		_ = f.plane.NoteFollowing(f.ctx, func(s *plane.Following) { s.Error = err.Error() }) // it is stored with the next state
	}
}

// storeEvents stores the events of a stream. It lets changes wait for others only while others are there.
func (f *follower) storeEvents() error {
	for e := range f.events {
		if err := f.apply(e); err != nil {
			return err
		}
		if len(f.events) == 0 || len(f.copies) >= maxCopies {
			if err := f.store(); err != nil {
				return err
			}
		}
	}
	return nil
}

// apply applies an event. Changes wait in copies.
func (f *follower) apply(e event) error {
	switch e.kind {
	case "resync":
		f.token, f.reached, f.seen, f.withheld = "", "", map[resource.Ref]bool{}, map[resource.Ref]bool{}
	case "put", "remove", "withhold":
		ref, c, err := parseCopy(e.kind, e.data)
		if err != nil {
			return fmt.Errorf("%s: %w", e.kind, err)
		}
		f.copies[ref] = c
		if delete(f.withheld, ref); e.kind == "withhold" {
			f.withheld[ref] = true
		}
		if e.kind == "put" && f.seen != nil {
			f.seen[ref] = true
		}
		if e.id != "" {
			f.reached = e.id
		}
	case "synced":
		epoch, _, _ := strings.Cut(e.id, "-")
		if err := f.store(); err != nil {
			return err
		}
		if err := f.plane.CopyOnly(f.ctx, f.seen, epoch); err != nil {
			return fmt.Errorf("store the copy: %w", err)
		}
		f.seen, f.reached = nil, e.id
	case "state":
		s := new(plane.State)
		if err := json.Unmarshal(e.data, s); err != nil {
			return fmt.Errorf("state: %w", err)
		}
		if s.Whole && f.seen == nil {
			f.state = s
		}
		if s.Overdue != nil {
			return f.plane.CopyOverdue(f.ctx, *s.Overdue)
		}
	}
	return nil // or it is of a later release
}

// store stores the copies that wait, and notes how complete the copy is then.
func (f *follower) store() error {
	if err := f.plane.CopyAll(f.ctx, f.copies); err != nil {
		return fmt.Errorf("store the copy: %w", err)
	}
	clear(f.copies)
	f.token = f.reached
	s := f.state
	if f.state = nil; s == nil {
		return nil
	}
	err := f.plane.NoteFollowing(f.ctx, func(now *plane.Following) {
		// The stream is younger than the request for it, so the copy is no older than this.
		now.At = f.asked.Add(time.Duration((s.Seconds - s.Age) * float64(time.Second)))
		now.Withheld, now.Liveness, now.Error = len(f.withheld), s.Liveness, ""
	})
	if err == nil && time.Since(f.asked) > maxStream {
		return errRenew
	}
	return err
}

// parseCopy parses a change. The document stays as it is: its entity tag is made of its bytes.
func parseCopy(kind string, data []byte) (resource.Ref, plane.Copy, error) {
	var c struct {
		resource.Ref
		Version int64           `json:"version"`
		Body    json.RawMessage `json:"resource"`
	}
	if err := json.Unmarshal(data, &c); err != nil {
		return c.Ref, plane.Copy{}, err
	}
	if err := c.Check(); err != nil || kind != "put" {
		return c.Ref, plane.Copy{}, err
	}
	doc, err := resource.Parse(c.Kind, c.Body)
	if err != nil {
		return c.Ref, plane.Copy{}, fmt.Errorf("%s: %w", c.Ref, err)
	}
	if doc.(interface{ Ref() resource.Ref }).Ref() != c.Ref || c.Version < 1 {
		return c.Ref, plane.Copy{}, fmt.Errorf("%s: version %d: is not its document", c.Ref, c.Version)
	}
	return c.Ref, plane.Copy{Version: c.Version, Body: c.Body}, nil
}
