// Package registry keeps the members of a fleet in a control plane. The control plane's leases show which ones live,
// and its versions order all changes.
//
// Agents are in the namespace fleet, and tasks in fleet-queue: permissions for them are separate. A running agent is
// an instance of the service agents. Its ID is the agent's name and a session, which differs for each start. The
// configuration agents.NAME names that session and the exclusive holder of the machine, and says whether the agent is
// cordoned. It outlives a lost or cordoned agent for 30 days. Each change replaces a version that was read.
package registry

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"dyno/lab/fleet/agent"
	"dyno/services/control/client"
	"dyno/services/control/resource"
)

// The fleet's namespaces in the control plane.
const (
	Fleet = "fleet"       // the namespace of agents and of the holders of their machines
	Queue = "fleet-queue" // the namespace of tasks and their plans
	Trust = "fleet-trust" // the namespace of revocations, read-only for agents and coordinators

	agents       = "agents"
	coordinators = "coordinators"
)

const (
	lease        = 10 * time.Second // of agents and of those who hold machines
	closeTimeout = 5 * time.Second  // to remove an instance
	maxAttempts  = 20               // of a change that conflicts with others
	maxList      = 64 << 20         // bytes of an answer
)

// The metadata of an agent's instance.
const (
	labelPrefix = "label."
	versionKey  = "version"
	cpusKey     = "cpus"
	openKey     = "descriptors"
	mostKey     = "connections"
	observesKey = "observes"
)

// Config configures the connection to the control plane.
type Config struct {
	Namespace string
	Servers   []string    // addresses of replicas
	Token     string      // empty: none
	TLS       *tls.Config // nil: the system's authorities
	Logger    *slog.Logger
}

// A Registry is a connection to the control plane.
type Registry struct {
	client    *client.Client
	namespace string
	log       *slog.Logger
}

// Open returns a Registry, which has not connected yet.
func Open(c Config) (*Registry, error) {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	of := client.Defaults()
	of.Servers, of.Token, of.TLS, of.Namespace, of.Logger = c.Servers, c.Token, c.TLS, c.Namespace, c.Logger
	made, err := client.New(of)
	if err != nil {
		return nil, err
	}
	return &Registry{made, c.Namespace, c.Logger}, nil
}

// Close ends the connection. Registrations last until their leases end.
func (r *Registry) Close() { r.client.Close() }

// An Agent is registered, and was heard within its lease.
type Agent struct {
	agent.Info
	Address  string // host:port
	Observes string // kinds of observers, separated by commas
	Cordoned bool   // it accepts no new parts
	Held     bool   // a run has exclusive use of the machine
	// ReservedBy is the lease of a run that waits for exclusive use; empty: none.
	ReservedBy string
	session    string
}

// A document has an agent's state that outlives the process.
type document struct {
	Session  string `json:"session,omitempty"`  // the session with the name
	Cordoned bool   `json:"cordoned,omitempty"` // no new parts
	Holder   string `json:"holder,omitempty"`   // the ID of the coordinator with exclusive use of the machine
	Reserved string `json:"reserved,omitempty"` // the ID of the coordinator that waits for exclusive use
	Fence    int64  `json:"fence,omitempty"`    // grows with each holder; begins with the time at which the document was made, in ms
	// Gone is when the agent was first found not to live.
	Gone time.Time `json:"gone_at,omitzero"`
}

// maxFence exceeds every fence: they begin with a time in ms, and grow by one.
const maxFence = 1 << 52

// Check validates a document as that of an agent.
func (d *document) Check(string) error {
	if d.Fence < 0 || d.Fence > maxFence {
		return fmt.Errorf("fence: %d", d.Fence)
	}
	return nil
}

func (d *document) terms() agent.Terms {
	return agent.Terms{Cordoned: d.Cordoned, Exclusive: d.Holder != "", Fence: d.Fence}
}

func documentName(name string) string { return agents + "." + name }

// ask carries out an operation and decodes its answer, unless into is nil.
func (r *Registry) ask(ctx context.Context, q client.Request, into any) (tag string, err error) {
	a, err := r.client.Do(ctx, q)
	if err != nil {
		return "", err
	}
	if into != nil {
		err = json.NewDecoder(io.LimitReader(a.Body, maxList)).Decode(into)
	}
	return a.Header.Get("ETag"), errors.Join(err, a.Body.Close())
}

// list reads a list to its end. With a text, it has only items with that text in their names.
func list[T any](ctx context.Context, r *Registry, path, text string) (all []T, err error) {
	query := r.inNamespace()
	if text != "" {
		query.Set("search", text)
	}
	for {
		var page struct {
			Items []T    `json:"items"`
			Next  string `json:"next"`
		}
		if _, err := r.ask(ctx, client.Request{Method: http.MethodGet, Path: path, Query: query}, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Items...)
		if page.Next == "" {
			return all, nil
		}
		query.Set("after", page.Next)
	}
}

// An instance is an instance of a service, in the control plane's form.
type instance struct {
	resource.Instance
	Overdue bool `json:"overdue"` // it was silent for longer than its lease
}

// living returns the instances of a service by their IDs.
func (r *Registry) living(ctx context.Context, service string) (map[string]instance, error) {
	all, err := list[instance](ctx, r, "/v1/services/"+service+"/instances", "")
	if isStatus(err, http.StatusNotFound) {
		return nil, nil // nobody has registered yet
	}
	byID := map[string]instance{}
	for _, i := range all {
		byID[i.ID] = i
	}
	return byID, err
}

// instance returns an agent's instance, or nil if it does not live.
func (r *Registry) instance(ctx context.Context, id string) (*resource.Instance, error) {
	i := &resource.Instance{}
	_, err := r.ask(ctx, client.Request{Method: http.MethodGet, Path: instancePath(id), Query: r.inNamespace()}, i)
	if isStatus(err, http.StatusNotFound) {
		return nil, nil
	}
	return i, err
}

func isStatus(err error, status int) bool {
	var p *client.Problem
	return errors.As(err, &p) && p.Status == status
}

// IsAway reports whether an error says that the control plane, or its store, does not answer now.
func IsAway(err error) bool {
	var none *client.Unreachable
	var p *client.Problem
	return errors.As(err, &none) || errors.As(err, &p) && p.Status >= http.StatusInternalServerError
}

// Agents returns all agents by name, and those with unreadable data.
func (r *Registry) Agents(ctx context.Context) (all []Agent, broken []Broken, err error) {
	holders, err := r.Leases(ctx)
	if err != nil {
		return nil, nil, err
	}
	living, documents, broken, err := r.named(ctx)
	if err != nil {
		return nil, nil, err
	}
	for name, d := range documents {
		i, ok := living[instanceID(name, d.Session)]
		if !ok {
			continue
		}
		a, err := agentOf(name, &i.Instance)
		if err != nil {
			broken = append(broken, newBroken(name, err))
			continue
		}
		a.Held, a.Cordoned, a.session = holders[d.Holder], d.Cordoned, d.Session
		if holders[d.Reserved] {
			a.ReservedBy = d.Reserved
		}
		all = append(all, a)
	}
	slices.SortFunc(all, func(a, b Agent) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(broken, func(a, b Broken) int { return strings.Compare(a.Name, b.Name) })
	return all, broken, nil
}

// named returns the agents' instances, and the documents by the agents' names.
func (r *Registry) named(ctx context.Context) (living map[string]instance, documents map[string]document, broken []Broken, err error) {
	if living, err = r.living(ctx, agents); err == nil {
		documents, broken, err = Documents[document](ctx, r, agents+".")
	}
	return living, documents, broken, err
}

// RemoveAgent removes an agent's data from the control plane, readable or not. A live agent registers again.
func (r *Registry) RemoveAgent(ctx context.Context, name string) error {
	living, err := r.living(ctx, agents)
	if err != nil {
		return err
	}
	_, tag, err := Read[document](ctx, r, documentName(name))
	if _, broken := errors.AsType[*BrokenError](err); err != nil && !broken {
		return err
	}
	found := tag != ""
	for id := range living {
		if of, _, ok := strings.Cut(id, ":"); ok && of == name {
			found = true
			if _, err := r.ask(ctx, client.Request{Method: http.MethodDelete, Path: instancePath(id), Query: r.inNamespace()}, nil); err != nil && !isStatus(err, http.StatusNotFound) {
				return err
			}
		}
	}
	if !found {
		return fmt.Errorf("%s: %w", name, ErrUnknown)
	}
	return r.Remove(ctx, documentName(name))
}

func instancePath(id string) string {
	return "/v1/services/" + agents + "/instances/" + url.PathEscape(id)
}

// instanceID names a session of an agent. Names have no colons.
func instanceID(name, session string) string { return name + ":" + session }

// agentOf reads an instance.
func agentOf(name string, i *resource.Instance) (Agent, error) {
	a := Agent{Info: agent.Info{Name: name, Version: i.Metadata[versionKey]}, Address: addressOf(i), Observes: i.Metadata[observesKey]}
	for _, field := range []struct {
		key string
		to  *int
	}{{cpusKey, &a.CPUs}, {openKey, &a.Descriptors}, {mostKey, &a.Connections}} {
		number, err := strconv.ParseUint(i.Metadata[field.key], 10, 31)
		if err != nil {
			return a, fmt.Errorf("%s: %s: %w", i.Ref(), field.key, err)
		}
		*field.to = int(number) //nolint:gosec // has 31 bits
	}
	for key, value := range i.Metadata {
		if label, ok := strings.CutPrefix(key, labelPrefix); ok {
			if a.Labels == nil {
				a.Labels = map[string]string{}
			}
			a.Labels[label] = value
		}
	}
	return a, nil
}

func addressOf(i *resource.Instance) string { return net.JoinHostPort(i.Address, strconv.Itoa(i.Port)) }

// change changes an agent's document. If another client changes it meanwhile, f gets the new one.
func (r *Registry) change(ctx context.Context, name string, f func(*document) error) (document, error) {
	return Change(ctx, r, documentName(name), f)
}

// ErrUnknown says that the agent is unknown.
var ErrUnknown = errors.New("no agent of this name has registered, or it has ended long ago")

// SetCordoned sets whether an agent refuses new parts. That outlives the agent's process.
func (r *Registry) SetCordoned(ctx context.Context, name string, cordoned bool) error {
	_, err := r.change(ctx, name, func(d *document) error {
		if *d == (document{}) {
			return fmt.Errorf("%s: %w", name, ErrUnknown)
		}
		d.Cordoned = cordoned
		return nil
	})
	return err
}

// NameTakenError says that another agent has a name.
type NameTakenError struct{ Name, Address string }

func (e *NameTakenError) Error() string {
	return fmt.Sprintf("an agent called %s lives at %s", e.Name, e.Address)
}

// A Membership is an agent's place in the fleet.
type Membership struct {
	registry     *Registry
	name         string
	session      string
	address      string
	apply        func(agent.Terms)
	registration *client.Registration
	watch        *client.Watch
}

// Join registers an agent that listens at an address. Before that it passes the agent's terms to apply. An earlier
// agent of this name at this address has ended: its address was free. The error is *NameTakenError if one lives at
// another address.
func (r *Registry) Join(ctx context.Context, info agent.Info, address, observes string, apply func(agent.Terms)) (*Membership, error) {
	host, portText, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	port, err := strconv.Atoi(portText)
	if err != nil {
		return nil, err
	}
	m := &Membership{registry: r, name: info.Name, session: rand.Text(), address: address, apply: apply}
	i := resource.Instance{
		Namespace: r.namespace, Service: agents, ID: instanceID(info.Name, m.session), Address: host, Port: port, TTL: lease.Seconds(),
		Metadata: map[string]string{versionKey: info.Version, cpusKey: strconv.Itoa(info.CPUs), openKey: strconv.Itoa(info.Descriptors), mostKey: strconv.Itoa(info.Connections), observesKey: observes},
	}
	for label, value := range info.Labels {
		i.Metadata[labelPrefix+label] = value
	}
	if err := m.claim(ctx); err != nil {
		return nil, err
	}
	if m.watch, err = r.client.Watch(client.Query{Kinds: []resource.Kind{resource.Configs}, Names: []string{documentName(info.Name)}}); err != nil {
		return nil, err
	}
	if m.registration, err = r.client.Register(i); err == nil {
		err = m.registration.Ready(ctx)
	}
	if err != nil {
		m.watch.Close()
		return nil, err
	}
	r.log.Info("registered", "name", info.Name, "address", address)
	return m, nil
}

// claim gives the name to this session, and passes the agent's terms to apply.
func (m *Membership) claim(ctx context.Context) error {
	d, err := m.claimOnce(ctx)
	if broken, ok := errors.AsType[*BrokenError](err); ok {
		// The agent has the name, so it makes the document again. The next fence is higher than any before.
		m.registry.log.Warn("the agent's document is made again", "error", broken)
		if err = m.registry.Remove(ctx, documentName(m.name)); err == nil {
			d, err = m.claimOnce(ctx)
		}
	}
	if err == nil {
		m.apply(d.terms())
	}
	return err
}

func (m *Membership) claimOnce(ctx context.Context) (document, error) {
	return m.registry.change(ctx, m.name, func(d *document) error {
		if d.Session != "" {
			other, err := m.registry.instance(ctx, instanceID(m.name, d.Session))
			if err != nil {
				return err
			}
			if other != nil && addressOf(other) != m.address {
				return &NameTakenError{m.name, addressOf(other)}
			}
		} else {
			// The number grows even if an earlier document of the name was removed.
			d.Fence = time.Now().UnixMilli()
		}
		d.Session, d.Gone = m.session, time.Time{}
		return nil
	})
}

// Keep passes each change of the agent's terms to apply, until ctx ends. Then it removes the agent and its document,
// unless it is cordoned or its machine is held. It ends with an error if another agent has got the name. That can
// happen after this one was cut off for longer than its lease.
func (m *Membership) Keep(ctx context.Context) error {
	defer m.watch.Close()
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		if err := m.registration.Close(ctx); err != nil {
			m.registry.log.Warn("the agent is still registered", "for", lease.String(), "error", err)
			return
		}
		err := removeIf(ctx, m.registry, documentName(m.name), func(d document) bool {
			return d.Session == m.session && !d.Cordoned && d.Holder == ""
		})
		if err != nil {
			m.registry.log.Warn("the agent's configuration stays", "error", err)
		}
	}()
	var seen uint64
	for {
		s, err := m.watch.Next(ctx, seen)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		seen = s.Generation
		if s.Current && len(s.Items) == 0 { // the document was removed, or lost by the control plane
			if err := m.claim(ctx); err != nil && !IsAway(err) {
				return err
			}
		}
		for _, item := range s.Items {
			c, ok := item.Resource.(*resource.Config)
			if !ok {
				continue
			}
			var d document
			if err := decodeDocument(c, &d); err != nil {
				if err := m.claim(ctx); err != nil && !IsAway(err) {
					return err
				}
				continue
			}
			if d.Session != m.session {
				return fmt.Errorf("another agent has got the name %s", m.name)
			}
			m.apply(d.terms())
		}
	}
}

// A Hold is the exclusive use of machines. It ends with Release, or one lease time after its process has gone.
type Hold struct {
	Fences map[string]int64 // by agent: the fence of its parts

	registry *Registry
	lease    *Lease
}

// HeldError says that another run has exclusive use of a machine.
type HeldError struct{ Name string }

func (e *HeldError) Error() string {
	return fmt.Sprintf("the machine of agent %s is held by another run", e.Name)
}

// Hold takes exclusive use of agents' machines, all or none. by is the caller's reservation, or nil.
func (r *Registry) Hold(ctx context.Context, of []Agent, by *Reservation) (*Hold, error) {
	l, err := r.Lease(ctx)
	if err != nil {
		return nil, err
	}
	h := &Hold{Fences: map[string]int64{}, registry: r, lease: l}
	for _, a := range of {
		if err != nil {
			break
		}
		err = h.take(ctx, a, by.ID())
	}
	if err != nil {
		return nil, errors.Join(err, h.Release(ctx))
	}
	return h, nil
}

func (h *Hold) take(ctx context.Context, a Agent, by string) error {
	d, err := h.registry.change(ctx, a.Name, func(d *document) error {
		holders, err := h.registry.Leases(ctx)
		if err != nil {
			return err
		}
		if holders[d.Holder] && d.Holder != h.lease.ID {
			return &HeldError{a.Name}
		}
		if d.Reserved != by && holders[d.Reserved] {
			return &ReservedError{a.Name}
		}
		if d.Session != a.session || d.Cordoned {
			return fmt.Errorf("agent %s has ended, or was cordoned", a.Name)
		}
		d.Holder, d.Fence = h.lease.ID, d.Fence+1
		if d.Reserved == by {
			d.Reserved = ""
		}
		return nil
	})
	if err == nil {
		h.Fences[a.Name] = d.Fence
	}
	return err
}

// Release releases the machines. It takes at most closeTimeout, even after ctx has ended. Without it, the end of the
// lease releases them later.
func (h *Hold) Release(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(h.Fences)) {
		_, err := h.registry.change(ctx, name, func(d *document) error {
			if d.Holder == h.lease.ID {
				d.Holder = ""
			}
			return nil
		})
		errs = append(errs, err)
	}
	return errors.Join(append(errs, h.lease.Release(ctx))...)
}
