package fleet

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dyno/internal/roles"
	"dyno/lab/fleet/agent"
	"dyno/lab/fleet/clock"
	"dyno/lab/fleet/identity"
	"dyno/lab/generator"
	"dyno/lab/planfile"
	"dyno/load/engine/record"
)

// start starts an agent in this process, and returns its address.
func start(t *testing.T, c agent.Config) string {
	t.Helper()
	_, address := startServer(t, c)
	return address
}

func startServer(t *testing.T, c agent.Config) (*agent.Server, string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	s, err := agent.New(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return s, s.Addr().String()
}

// connect returns the agents at some addresses as carriers, with the descriptors of each.
func connect(t *testing.T, m *identity.Member, addresses ...string) (by []generator.Carrier, descriptors []int) {
	t.Helper()
	agents, err := Connect(t.Context(), "v1", m, addresses...)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range agents {
		by, descriptors = append(by, a), append(descriptors, a.Info.Descriptors)
	}
	return by, descriptors
}

// A journal is a server that writes down what it is asked for.
type journal struct {
	mu     sync.Mutex // guards seen
	seen   []string
	onSeen func() // nil: nothing
}

func (j *journal) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	j.mu.Lock()
	j.seen = append(j.seen, r.URL.String())
	j.mu.Unlock()
	if j.onSeen != nil {
		j.onSeen()
	}
}

// taken returns what was asked for since the last call, in order of the text.
func (j *journal) taken() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	seen := slices.Sorted(slices.Values(j.seen))
	j.seen = nil
	return seen
}

// carry runs an open load of a server: in this process, or by agents. If a machine stalls for longer than the wait at
// the end, some scheduled requests have no response.
func carry(t *testing.T, url, window string, by []generator.Carrier, descriptors []int) (scheduled, answered uint64, accounts []generator.Account, err error) {
	t.Helper()
	e, err := planfile.Parse("load.yaml", fmt.Appendf(nil, `name: load
target: {protocol: http, url: %q}
design: {rounds: 1}
load:
  open: {rate: 400/s, arrivals: poisson, max_connections: 9}
  warmup: 100ms
  window: %s
  scenario: {steps: [{name: one, path: "/{{ counter() }}"}]}
`, url, window), planfile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	v := &e.Variants[0]
	if err := v.Fill(nil); err != nil {
		t.Fatal(err)
	}
	c, codecs, err := generator.Config(t.Context(), v, 7)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := codecs.Close(); err != nil {
			t.Error(err)
		}
	}()
	if by == nil {
		result, err := generator.Run(t.Context(), v, 7, c, make([]generator.Portion, 1))
		if err != nil {
			t.Fatal(err)
		}
		return result.AllCounts.Scheduled, result.AllCounts.OK, nil, nil
	}
	portions, err := generator.Divide(c, by, descriptors)
	if err != nil {
		t.Fatal(err)
	}
	var sum record.Interval
	c.Times[record.Response] = true
	c.OnInterval = func(i record.Interval) { sum.AddTimes(&i) }
	result, accounts, err := generator.Coordinate(t.Context(), v, 7, c, portions, by)
	if err != nil {
		return 0, 0, nil, err
	}
	live, lived := sum.Latency[record.Response].MarshalText()
	all, known := result.Latency[record.Response].MarshalText()
	if err := errors.Join(lived, known); err != nil || !bytes.Equal(live, all) {
		t.Errorf("times of intervals %s, of the result %s, %v", live, all, err)
	}
	return result.AllCounts.Scheduled, result.AllCounts.OK, accounts, nil
}

// whole returns what a server has seen of a load in which all that was scheduled was answered.
func whole(t *testing.T, by []generator.Carrier, descriptors []int) (seen []string, accounts []generator.Account) {
	t.Helper()
	for range 20 {
		var j journal // what an earlier load left unanswered may come late, and to its own server
		server := httptest.NewServer(&j)
		scheduled, answered, accounts, err := carry(t, server.URL, "500ms", by, descriptors)
		server.Close()
		seen := j.taken()
		switch {
		case err != nil:
			t.Fatal(err)
		case scheduled == answered && uint64(len(seen)) == answered:
			return seen, accounts
		case scheduled == answered:
			t.Fatalf("%d requests seen, %d answered", len(seen), answered)
		}
	}
	t.Fatal("this machine keeps every load from being whole")
	return nil, nil
}

// alone is what one generator sends, always the same.
var alone struct {
	sync.Once
	seen []string
}

// carryWhole has agents send a load, and holds what the server has seen against what one generator sends: each request
// of the schedule, by its number, once.
func carryWhole(t *testing.T, by []generator.Carrier, descriptors []int) []generator.Account {
	t.Helper()
	alone.Do(func() { alone.seen, _ = whole(t, nil, nil) })
	if len(alone.seen) < 100 {
		t.Fatalf("%d requests", len(alone.seen))
	}
	got, accounts := whole(t, by, descriptors)
	if diff := cmp.Diff(alone.seen, got); diff != "" {
		t.Errorf("-by one +by %d:\n%s", len(by), diff)
	}
	return accounts
}

// Several agents send what one generator does.
func TestLoadOfAgents(t *testing.T) {
	t.Parallel()
	by, descriptors := connect(t, nil, start(t, config("a")), start(t, config("b")), start(t, config("c")))
	for _, a := range carryWhole(t, by, descriptors) {
		// They have this machine's clock, which may be set meanwhile.
		if a.Share != 1./3 || a.Workers != 1 || a.Cost.Window == 0 || a.Clock.Error <= 0 || a.Clock.Offset.Abs() > time.Second {
			t.Errorf("%+v", a)
		}
	}
}

// A fleet is an authority that lets machines join at an address.
type testFleet struct {
	authority   *identity.Authority
	coordinator *identity.Member
	address     string
}

func newFleet(t *testing.T) testFleet {
	t.Helper()
	authority, err := identity.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	m, err := authority.Member("main", identity.Coordinator)
	if err != nil {
		t.Fatal(err)
	}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- authority.Serve(ctx, l, m, m, slog.New(slog.DiscardHandler)) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return testFleet{authority, m, l.Addr().String()}
}

// joining is the configuration of an agent that joins the fleet.
func (f testFleet) joining(t *testing.T, name string) agent.Config {
	t.Helper()
	token, err := f.authority.Token(identity.Agent, time.Hour, 1)
	if err != nil {
		t.Fatal(err)
	}
	c := config(name)
	c.Identity, c.Join, c.JoinTokenFile = t.TempDir(), f.address, tokenFile(t, token)
	return c
}

// tokenFile keeps a token in a file.
func tokenFile(t *testing.T, token string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// An agent joins once, and carries loads for coordinators of its fleet, whom it knows by their certificates.
func TestLoadOfFleet(t *testing.T) {
	t.Parallel()
	var j journal
	target := httptest.NewServer(&j)
	defer target.Close()
	f := newFleet(t)
	c := f.joining(t, "a")
	t.Run("first", func(t *testing.T) { start(t, c) })
	c.Name = ""
	by, descriptors := connect(t, f.coordinator, start(t, c), start(t, f.joining(t, "b"))) // the token of a is used up
	_, answered, _, err := carry(t, target.URL, "200ms", by, descriptors)
	if n := len(j.taken()); err != nil || answered == 0 || uint64(n) < answered {
		t.Errorf("%d answered, %d seen: %v", answered, n, err)
	}
	if got := fmt.Sprint(by[0]); !strings.HasPrefix(got, "agent a (") {
		t.Error(got)
	}
}

// Who does not belong to the fleet gets no answer from its agents.
func TestUnauthenticated(t *testing.T) {
	f, other := newFleet(t), newFleet(t)
	address, plain := start(t, f.joining(t, "a")), start(t, config("plain"))
	fellow, err := f.authority.Member("b", identity.Agent)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name    string
		member  *identity.Member
		address string
		want    string
	}{
		{"no certificate", nil, address, "it belongs to a fleet: name the folder of a coordinator's certificate with --identity"},
		{"another fleet", other.coordinator, address, "its certificate is of another fleet"},
		{"an agent", fellow, address, "remote error: tls: bad certificate"},
		{"no TLS", f.coordinator, plain, "it does not use TLS: start it with --identity"},
		{"authority", f.coordinator, f.address, "main is coordinator, want [agent]"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if _, err := Connect(t.Context(), "v1", test.member, test.address); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %s", err, test.want)
			}
		})
	}
	// A client that trusts any server, and is nobody or of the other fleet.
	foreign := other.coordinator.Client("", identity.Agent)
	foreign.VerifyConnection = nil
	for name, to := range map[string]*tls.Config{
		"nobody":  {InsecureSkipVerify: true, MinVersion: tls.VersionTLS13}, //nolint:gosec // the agent is to refuse it
		"foreign": foreign,
	} {
		conn, err := tls.Dial("tcp", address, to)
		if err == nil {
			_, err = conn.Read(make([]byte, 1))
			_ = conn.Close()
		}
		if err == nil || !strings.Contains(err.Error(), "remote error: tls: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What keeps an agent from joining is said with the flag that mends it.
func TestNotJoined(t *testing.T) {
	f, other := newFleet(t), newFleet(t)
	spent := f.joining(t, "a")
	t.Run("spent", func(t *testing.T) { start(t, spent) })
	again := spent
	again.Identity = t.TempDir()
	unknown := f.joining(t, "a")
	known, err := os.ReadFile(unknown.JoinTokenFile)
	if err != nil {
		t.Fatal(err)
	}
	unknown.JoinTokenFile = tokenFile(t, strings.Repeat("0", 32)+string(known[32:]))
	foreign := other.joining(t, "a")
	foreign.Join = f.address
	none := f.joining(t, "a")
	none.JoinTokenFile = ""
	renamed := spent
	renamed.Name = "b"
	coordinator := f.joining(t, "")
	if err := f.coordinator.Save(filepath.Join(coordinator.Identity, identity.MemberFile)); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		config agent.Config
		want   string
	}{
		{again, "--join: join the fleet at " + f.address + ": 401 Unauthorized: the token was used by as many members as it is for"},
		{unknown, "401 Unauthorized: the token is not one of this fleet, or has expired"},
		{foreign, "the token is of another fleet, or another server answers at this address"},
		{none, "has no certificate that holds: join a fleet with --join HOST:PORT and a token"},
		{renamed, "--name: " + spent.Identity + " has the certificate of a: leave out --name"},
		{coordinator, "has the certificate of a coordinator: use another folder"},
	} {
		s, err := agent.New(t.Context(), test.config)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v, %v, want %s", s, err, test.want)
		}
	}
}

// What agents refuse, they explain.
func TestRefused(t *testing.T) {
	c := config("a")
	c.MaxParts = 1
	address := start(t, c)
	for _, test := range []struct {
		name, version string
		addresses     []string
		want          string
	}{
		{"version", "v2", []string{address}, "409 Conflict: it is dyno v1, and is asked by dyno v2: use the same version"},
		{"name", "v1", []string{address, start(t, config("a"))}, "are both called a: give one another name"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if _, err := Connect(t.Context(), test.version, nil, test.addresses...); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %s", err, test.want)
			}
		})
	}
	by, _ := connect(t, nil, address)
	p, err := by[0].Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := by[0].Start(t.Context()); err == nil || !strings.Contains(err.Error(), "it carries 1 parts of loads already") {
		t.Error(err)
	}
	// Without orders, a part ends.
	if err := p.CloseWrite(); err != nil {
		t.Error(err)
	}
	if said, err := io.ReadAll(p); err != nil || !strings.Contains(string(said), `"failed":"EOF"`) {
		t.Errorf("%s, %v", said, err)
	}
	if err := p.Wait(); err != nil {
		t.Error(err)
	}
	// A part whose connection ends makes room for another.
	for range 2 {
		restart(t, by[0]).Kill()
	}
	r, err := http.Post("http://"+address+"/v1/parts", "", nil)
	if err != nil || r.StatusCode != http.StatusConflict {
		t.Errorf("without a version: %+v, %v", r, err)
	} else if err := r.Body.Close(); err != nil {
		t.Error(err)
	}
	http.DefaultClient.CloseIdleConnections()
}

// restart starts a part as soon as there is room for it.
func restart(t *testing.T, by generator.Carrier) generator.Process {
	t.Helper()
	for begin := time.Now(); ; {
		p, err := by.Start(t.Context())
		if err == nil {
			return p
		}
		if time.Since(begin) > roles.HangGuard {
			t.Fatal(err)
		}
	}
}

// What an agent's owner does not allow, no coordinator gets.
func TestLimits(t *testing.T) {
	t.Parallel()
	var j journal
	server := httptest.NewServer(&j)
	defer server.Close()
	network := func(text string) []generator.Network {
		var n generator.Network
		if err := n.SetText(text, ""); err != nil {
			t.Fatal(err)
		}
		return []generator.Network{n}
	}
	own := strings.TrimPrefix(server.URL, "http://")
	for _, test := range []struct {
		change func(*agent.Config)
		want   string // an error, or none
	}{
		{func(c *agent.Config) { c.Networks = network(own) }, ""},
		{func(c *agent.Config) { c.Networks = network("10.0.0.0/8") }, "target.url: the machine's owner does not allow connections to " + own + " (--network)"},
		{func(c *agent.Config) { c.MaxConnections = 8 }, "the part has 9 connections, and the machine's owner allows 8 (--max-connections)"},
		{func(c *agent.Config) { c.MaxTime = 200 * time.Millisecond }, "the load takes 300ms, and the machine's owner allows 200ms (--max-time)"},
	} {
		c := config("a")
		test.change(&c)
		by, descriptors := connect(t, nil, start(t, c))
		_, _, _, err := carry(t, server.URL, "200ms", by, descriptors)
		if _, refused := errors.AsType[*generator.RefusedError](err); refused != (test.want != "") {
			t.Errorf("%v: refused %v", err, refused)
		}
		switch seen := len(j.taken()); {
		case test.want == "" && (err != nil || seen == 0):
			t.Errorf("%d requests, %v", seen, err)
		case test.want != "" && (err == nil || !strings.Contains(err.Error(), "agent a (") || !strings.Contains(err.Error(), test.want) || seen > 0):
			t.Errorf("%d requests, %v, want %s", seen, err, test.want)
		}
	}
	c := config("a")
	c.Files = "none"
	if _, err := agent.New(t.Context(), c); err == nil || err.Error() != "--files: none is no folder" {
		t.Error(err)
	}
}

// An agent without a coordinator ends by itself, if its owner wants that.
func TestAgentIdle(t *testing.T) {
	c := config("a")
	c.IdleTimeout = time.Millisecond
	s, err := agent.New(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Serve(t.Context()); err != nil {
		t.Error(err)
	}
}

// An agent that is stopped ends its parts before.
func TestAgentStopped(t *testing.T) {
	var p generator.Process
	t.Run("agent", func(t *testing.T) {
		by, _ := connect(t, nil, start(t, config("a")))
		p = restart(t, by[0])
	})
	if said, _ := io.ReadAll(p); len(said) > 0 { // how the connection ended does not matter
		t.Errorf("%q", said)
	}
	p.Kill()
}

// The clock of an agent is measured before every part; after a start of its machine, that is another clock.
func TestFollow(t *testing.T) {
	const second = int64(time.Second)
	a := &Agent{}
	for _, test := range []struct{ ours, offset int64 }{{second, 5000}, {11 * second, 5100}, {12 * second, -400 * second}} {
		c, err := a.follow(clock.Measurement{At: test.ours, Offset: test.offset, Error: 50})
		theirs, within := c.At(test.ours)
		if err != nil || (time.Duration(theirs-test.ours-test.offset)).Abs() > time.Duration(within) || within > 100 {
			t.Errorf("at %d: %d ± %d, %v", test.ours, theirs, within, err)
		}
	}
}

// Clocks are compared when agents connect: then the comparison before the first part tells their rates.
func TestRateOfClock(t *testing.T) {
	by, _ := connect(t, nil, start(t, config("a")))
	a := by[0].(*Agent)
	now := generator.Monotonic()
	if _, within := a.clock.At(now); within == math.MaxInt64 {
		t.Error("no clock")
	}
	c, err := a.follow(clock.Measurement{At: now + int64(time.Hour), Error: 1000})
	if _, within := c.Rate(); err != nil || within >= clock.Tolerance*1e6 {
		t.Errorf("rate ± %v ppm, %v", within, err)
	}
}

// After a load, the clocks are compared once more, and what the offset was taken for is held against that.
func TestDrift(t *testing.T) {
	const second = int64(time.Second)
	var p generator.Process
	t.Run("compared", func(t *testing.T) {
		by, _ := connect(t, nil, start(t, config("a")))
		p = restart(t, by[0])
		ours := generator.Monotonic()
		theirs, _ := p.At(ours)
		for _, wrong := range []int64{0, second, -second} {
			within, err := p.Drift(t.Context(), ours, theirs+wrong)
			if off := theirs + wrong - ours; err != nil || within < max(off, -off) || within == math.MaxInt64 { // both are the same clock
				t.Errorf("%d ns off: at most %d, %v", off, within, err)
			}
		}
	})
	if _, err := p.Drift(t.Context(), 0, 0); err == nil {
		t.Error("compared with an agent that has ended")
	}
	p.Kill()
}

// The offset of a clock 100 s ahead is found within its error, and a load begins by it. It takes root to have such a
// clock: that of a time namespace (time_namespaces(7)).
func TestClockAhead(t *testing.T) {
	t.Parallel()
	const ahead = 100 * time.Second
	in := []string{"--time", "--monotonic", "100", "--boottime", "100", "--fork", "--kill-child"}
	if said, err := exec.Command("unshare", append(in, "true")...).CombinedOutput(); err != nil {
		t.Skipf("no time namespace: %v: %s", err, said)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	by, descriptors := connect(t, nil, roles.Start(t, exec.Command("unshare", append(in, exe, "agent", "ahead")...)).Line(t))
	for range 3 {
		p := restart(t, by[0])
		ours := generator.Monotonic()
		theirs, within := p.At(ours)
		p.Kill()
		if wrong := (time.Duration(theirs-ours) - ahead).Abs(); wrong > time.Duration(within) {
			t.Errorf("wrong by %v, stated %v", wrong, time.Duration(within))
		}
	}
	var j journal
	server := httptest.NewServer(&j)
	defer server.Close()
	_, answered, accounts, err := carry(t, server.URL, "200ms", by, descriptors)
	if err != nil || answered == 0 || accounts[0].Clock.Offset.Abs() > time.Second {
		t.Errorf("%d answered, %+v, %v", answered, accounts, err)
	}
}
