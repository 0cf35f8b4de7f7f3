// Package fleet makes agents on other machines carry a load, and start and observe its target. Each part that an
// agent carries has its own connection; package agent has its side. Before each part and after it, the clocks of both
// machines are compared.
package fleet

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"dyno/internal/errno"
	"dyno/lab/fleet/agent"
	"dyno/lab/fleet/clock"
	"dyno/lab/fleet/identity"
	"dyno/lab/generator"
	"dyno/lab/remote"
)

// The bounds of the exchange.
const (
	requestTimeout = 10 * time.Second
	endTimeout     = 10 * time.Second // for a part after its last report
	maxAnswer      = 64 << 10
	maxLog         = 2 << 20
	clockSamples   = 16
	askTimeout     = 2 * time.Second        // for a request to a lost agent
	askPeriod      = 100 * time.Millisecond // until its parts have ended
)

// DefaultSilence is how long an agent's part, or this process, may be silent before the other counts it as lost. A
// machine that is busy with load delays a message by less.
const DefaultSilence = 15 * time.Second

// An Agent carries parts of loads.
type Agent struct {
	Info    agent.Info
	Address string        // host:port
	Fence   int64         // of the run with exclusive use of the machine; 0: none
	Silence time.Duration // after which a part, or this process, counts as lost
	// Locate returns the agent's present address, after it was lost. nil: it is unchanged.
	Locate func(context.Context) (address string, err error)
	// Awaited says that no other agent can replace it: Ask waits for its return, up to Silence.
	Awaited bool

	version string
	member  *identity.Member // this machine's dyno; nil: TLS is not used

	mu     sync.Mutex  // guards what follows
	clock  clock.Clock // CLOCK_MONOTONIC of its machine
	killed time.Time   // time of the last ended connection to a part
}

var (
	_ generator.Carrier = (*Agent)(nil)
	_ remote.Machine    = (*Agent)(nil)
)

// String names the agent in errors.
func (a *Agent) String() string {
	if a.Info.Name == "" {
		return "agent " + a.Address
	}
	return fmt.Sprintf("agent %s (%s)", a.Info.Name, a.Address)
}

// Connect gets the Info of the agents at some addresses. All must have this dyno's version, and different names. A
// coordinator connects only to agents of its fleet; without membership, it connects only to agents without TLS.
func Connect(ctx context.Context, version string, m *identity.Member, addresses ...string) ([]*Agent, error) {
	var all []*Agent
	named := map[string]string{}
	for _, address := range addresses {
		a := &Agent{Address: address, Silence: DefaultSilence, version: version, member: m}
		conn, err := a.dial(ctx)
		if err != nil {
			return nil, err
		}
		if err = conn.ask(ctx, "/v1/agent", &a.Info); err == nil {
			// The next comparison also gives the clocks' rates, before the first load begins.
			_, err = a.compareClocks(ctx, conn)
		}
		if secured, ok := conn.Conn.(*tls.Conn); ok && err == nil {
			var peer identity.Peer
			peer, err = identity.PeerOf(secured.ConnectionState())
			a.Info.Name = peer.Name // whatever it calls itself
		}
		if err = errors.Join(err, conn.Close()); err != nil {
			return nil, fmt.Errorf("%v: %w", a, err)
		}
		if other, taken := named[a.Info.Name]; taken {
			return nil, fmt.Errorf("the agents at %s and %s are both called %s: give one another name with --name", other, address, a.Info.Name)
		}
		named[a.Info.Name] = address
		all = append(all, a)
	}
	return all, nil
}

// Ask gets the present state of an agent that lost a part. It waits until none of its earlier parts can send: they
// have ended, or were without orders for too long. The error says why the agent cannot carry parts now.
func (a *Agent) Ask(ctx context.Context) (address string, descriptors int, err error) {
	a.mu.Lock()
	end := a.killed.Add(a.Silence)
	a.mu.Unlock()
	if a.Locate != nil {
		// An agent at the new address does not know the parts at the old one.
		if now, err := a.Locate(ctx); err == nil && now != a.Address {
			select {
			case <-ctx.Done():
			case <-time.After(time.Until(end)):
			}
			a.Address = now
		}
	}
	for {
		info, err := a.askOnce(ctx)
		switch rest := time.Until(end); {
		case context.Cause(ctx) != nil:
			return "", 0, context.Cause(ctx)
		case errno.Is(err, syscall.ECONNREFUSED) && (!a.Awaited || rest <= 0): // its parts have ended with it
			return "", 0, err
		case err == nil && info.Version != a.version:
			return "", 0, fmt.Errorf("%v: it is dyno %s now: use the version of this machine, %s", a, info.Version, a.version)
		case err == nil && info.Name != a.Info.Name:
			return "", 0, fmt.Errorf("%v: it is called %s now: give it the name that it had with --name", a, info.Name)
		case rest > 0 && (err != nil || info.Parts > 0):
			time.Sleep(min(rest, askPeriod))
		case err != nil:
			return "", 0, err
		case info.Refuses != "":
			return "", 0, fmt.Errorf("%v: %s", a, info.Refuses)
		default:
			return a.Address, info.Descriptors, nil
		}
	}
}

// askOnce gets an agent's Info.
func (a *Agent) askOnce(ctx context.Context) (info agent.Info, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	of := &Agent{Info: a.Info, Address: a.Address, Fence: a.Fence, member: a.member} // of any version
	conn, err := of.dial(ctx)
	if err != nil {
		return info, err
	}
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if err = errors.Join(conn.ask(ctx, "/v1/agent", &info), conn.Close()); err != nil {
		return info, fmt.Errorf("%v: %w", a, err)
	}
	if a.member != nil {
		info.Name = a.Info.Name // that of its certificate
	}
	return info, nil
}

// Parts returns how many parts the agent at an address carries. Its version may differ.
func Parts(ctx context.Context, m *identity.Member, address string) (int, error) {
	var info agent.Info
	err := get(ctx, m, address, "/v1/agent", func(body io.Reader) error { return json.NewDecoder(body).Decode(&info) })
	return info.Parts, err
}

// Log copies the last lines of the log of the agent at an address.
func Log(ctx context.Context, m *identity.Member, address string, to io.Writer) error {
	return get(ctx, m, address, "/v1/logs", func(body io.Reader) error {
		_, err := io.Copy(to, body)
		return err
	})
}

// get reads the answer to one request.
func get(ctx context.Context, m *identity.Member, address, path string, read func(io.Reader) error) error {
	conn, err := (&Agent{Address: address, member: m}).dial(ctx)
	if err != nil {
		return err
	}
	r, err := conn.send(ctx, http.MethodGet, path, "")
	if err == nil {
		err = errors.Join(read(io.LimitReader(r.Body, maxLog)), r.Body.Close())
	}
	return errors.Join(err, conn.Close())
}

// Start implements generator.Carrier.
func (a *Agent) Start(ctx context.Context) (generator.Process, error) {
	return a.open(ctx, agent.PartsPath, agent.Protocol, ", which carries a part of the load")
}

// Host implements remote.Machine.
func (a *Agent) Host(ctx context.Context) (remote.Channel, error) {
	return a.open(ctx, agent.TargetsPath, agent.TargetProtocol, "")
}

// open starts a process there.
func (a *Agent) open(ctx context.Context, path, protocol, does string) (*session, error) {
	conn, err := a.dial(ctx)
	if err != nil {
		return nil, err
	}
	s := &session{connection: conn, does: does}
	if s.clock, err = a.compareClocks(ctx, conn); err == nil {
		err = conn.upgrade(ctx, path, protocol)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%v: %w", a, err), conn.Close())
	}
	return s, nil
}

// compareClocks returns the agent's clock after one more comparison with this machine's.
func (a *Agent) compareClocks(ctx context.Context, c *connection) (clock.Clock, error) {
	m, err := c.measureClock(ctx)
	if err != nil {
		return clock.Clock{}, err
	}
	return a.follow(m)
}

// measureClock asks the agent for the time.
func (c *connection) measureClock(ctx context.Context) (clock.Measurement, error) {
	var samples []clock.Sample
	for range clockSamples {
		var t agent.Times
		sent := generator.Monotonic()
		if err := c.ask(ctx, "/v1/clock", &t); err != nil {
			return clock.Measurement{}, err
		}
		samples = append(samples, clock.Sample{Sent: sent, Received: t.Received, Answered: t.Answered, Arrived: generator.Monotonic()})
	}
	return clock.Measure(samples)
}

// follow returns the agent's clock after another measurement. A contradicting one is the first of a new clock: the
// machine was restarted.
func (a *Agent) follow(m clock.Measurement) (followed clock.Clock, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if followed, err = a.clock.With(m); err != nil {
		followed, err = clock.Clock{}.With(m)
	}
	a.clock = followed
	return followed, err
}

// A connection is a connection to an agent.
type connection struct {
	net.Conn
	agent   *Agent
	r       *bufio.Reader
	untrack func()
}

// Close ends the connection.
func (c *connection) Close() error {
	c.untrack()
	return c.Conn.Close()
}

func (a *Agent) dial(ctx context.Context) (*connection, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	dialer := &net.Dialer{KeepAliveConfig: agent.KeepAlive, Control: agent.BoundSilence}
	dial := dialer.DialContext
	if a.member != nil {
		// After the name is known, no other agent may answer.
		dial = (&tls.Dialer{NetDialer: dialer, Config: a.member.Client(a.Info.Name, identity.Agent)}).DialContext
	}
	conn, err := dial(ctx, "tcp", a.Address)
	if _, plain := errors.AsType[tls.RecordHeaderError](err); plain {
		err = errors.New("it does not use TLS: start it with --identity, or leave out --identity here")
	}
	if _, foreign := errors.AsType[x509.UnknownAuthorityError](err); foreign {
		err = errors.New("its certificate is of another fleet: use its coordinator's folder with --identity, or have it join this fleet with --join")
	}
	if err != nil {
		return nil, fmt.Errorf("%v: %w", a, err)
	}
	return &connection{Conn: conn, agent: a, r: bufio.NewReader(conn), untrack: a.member.Track(conn)}, nil
}

// ask gets the answer to a request.
func (c *connection) ask(ctx context.Context, path string, answer any) error {
	r, err := c.send(ctx, http.MethodGet, path, "")
	if err != nil {
		return err
	}
	err = json.NewDecoder(io.LimitReader(r.Body, maxAnswer)).Decode(answer)
	if err == nil {
		_, err = io.Copy(io.Discard, io.LimitReader(r.Body, maxAnswer))
	}
	return errors.Join(err, r.Body.Close())
}

// upgrade turns the connection into one to a process.
func (c *connection) upgrade(ctx context.Context, path, protocol string) error {
	_, err := c.send(ctx, http.MethodPost, path, protocol) //nolint:bodyclose // the connection is no longer one for requests
	return err
}

// send sends a request, perhaps to upgrade to a protocol, and returns the response. The text of a refusal is the
// error.
func (c *connection) send(ctx context.Context, method, path, upgrade string) (*http.Response, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if err := c.SetDeadline(time.Now().Add(requestTimeout)); err != nil {
		return nil, err
	}
	q, err := http.NewRequestWithContext(ctx, method, "http://"+c.agent.Address+path, nil)
	if err != nil {
		return nil, err
	}
	if c.agent.version != "" {
		q.Header.Set(agent.VersionHeader, c.agent.version)
	}
	if c.agent.Fence > 0 {
		q.Header.Set(agent.FenceHeader, strconv.FormatInt(c.agent.Fence, 10))
	}
	status := http.StatusOK
	if upgrade != "" {
		status = http.StatusSwitchingProtocols
		q.Header.Set("Connection", "Upgrade")
		q.Header.Set("Upgrade", upgrade)
	}
	if err := q.Write(c); err != nil {
		return nil, err
	}
	r, err := http.ReadResponse(c.r, q)
	if err != nil {
		return nil, err
	}
	if r.StatusCode != status {
		text, _ := io.ReadAll(io.LimitReader(r.Body, maxAnswer))                                                       // a part of the text is enough
		if r.StatusCode == http.StatusBadRequest && c.agent.member == nil && strings.Contains(string(text), "HTTPS") { // net/http says so
			text = []byte("it belongs to a fleet: name the folder of a coordinator's certificate with --identity")
		}
		return nil, errors.Join(fmt.Errorf("%s: %s", r.Status, strings.TrimSpace(string(text))), r.Body.Close())
	}
	return r, c.SetDeadline(time.Time{})
}

// A session is a process on an agent's machine.
type session struct {
	*connection
	clock clock.Clock
	does  string // for errors
}

var (
	_ generator.Process = (*session)(nil)
	_ remote.Channel    = (*session)(nil)
)

// Read implements io.Reader. Bytes that came with the response to the upgrade come first.
func (s *session) Read(b []byte) (int, error) { return s.r.Read(b) }

// CloseWrite ends the orders.
func (s *session) CloseWrite() error {
	return s.Conn.(interface{ CloseWrite() error }).CloseWrite() // TCP and TLS have it
}

// Kill ends the connection: the agent ends its process.
func (s *session) Kill() {
	a := s.agent
	a.mu.Lock()
	a.killed = time.Now()
	a.mu.Unlock()
	_ = s.Close()
}

// Wait waits until the agent closes the connection: then its process has ended.
func (s *session) Wait() error {
	err := s.SetReadDeadline(time.Now().Add(endTimeout))
	if err == nil {
		_, err = io.Copy(io.Discard, s.r)
	}
	if err = errors.Join(err, s.Close()); err != nil {
		return fmt.Errorf("%v: %w", s, err)
	}
	return nil
}

// At implements generator.Process.
func (s *session) At(ours int64) (theirs, within int64) { return s.clock.At(ours) }

// Drift implements generator.Process. It compares the clocks over a connection of its own. It does not update the
// agent's clock: this comparison and that of the next part are too close to give a rate.
func (s *session) Drift(ctx context.Context, ours, theirs int64) (within int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	conn, err := s.agent.dial(ctx)
	if err != nil {
		return 0, err
	}
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	m, err := conn.measureClock(ctx)
	if err = errors.Join(err, conn.Close()); err != nil {
		return 0, err
	}
	now, err := s.clock.With(m)
	return now.Apart(theirs-ours, ours, generator.Monotonic()), err
}

// Silence implements generator.Process.
func (s *session) Silence() time.Duration { return s.agent.Silence }

// String implements generator.Process.
func (s *session) String() string { return s.agent.String() + s.does }
