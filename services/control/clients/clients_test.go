package clients

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"dyno/internal/freeport"
	"dyno/internal/roles"
	"dyno/services/control/client"
	"dyno/services/control/program"
)

func TestMain(m *testing.M) {
	roles.Main(m, map[string]func([]string) error{"replica": replicate})
}

// replicate is a replica until its standard input ends, which it does with the test.
func replicate(args []string) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // nothing is sent
		cancel()
	}()
	if code := program.Main(ctx, args, io.Discard, os.Stderr); code != 0 {
		return fmt.Errorf("exit code %d", code)
	}
	return nil
}

// languages has the programs of each client, example and leader.
var languages = map[string]func(t *testing.T, program string) *exec.Cmd{
	"python": func(t *testing.T, program string) *exec.Cmd {
		cmd := exec.Command(find(t, "python3", "python/python/dyno_control/control_pb2.py", "python/python/grpc/__init__.py"), "python/"+program+".py")
		cmd.Env = append(os.Environ(), "PYTHONPATH=python/python")
		return cmd
	},
	"node": func(t *testing.T, program string) *exec.Cmd {
		return exec.Command(find(t, "node", "node/node_modules/@grpc/grpc-js/package.json"), "node/"+program+".js")
	},
	"java": func(t *testing.T, program string) *exec.Cmd {
		class := "dyno.control." + strings.ToUpper(program[:1]) + program[1:]
		return exec.Command(find(t, "java", "java/target/lib", "java/target/classes"), "-cp", "java/target/classes:java/target/lib/*", class)
	},
}

func TestClients(t *testing.T) {
	for language, start := range languages {
		t.Run(language, func(t *testing.T) { testClient(t, start(t, "example")) })
	}
}

func TestLeaders(t *testing.T) {
	for language, start := range languages {
		t.Run(language, func(t *testing.T) {
			t.Parallel() // it waits most of the time
			testLeaders(t, func() *exec.Cmd { return start(t, "leader") })
		})
	}
}

// find returns the path of a program. It skips the test without it, or if something is not installed.
func find(t *testing.T, program string, files ...string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		t.Skipf("no %s: scripts/setup.sh installs it", program)
	}
	for _, f := range files {
		if _, err := os.Stat(f); err != nil {
			t.Skipf("no %s: scripts/clients.sh installs it", f)
		}
	}
	return path
}

// A replica is one process of the control plane, that may be killed and started again.
type replica struct {
	http, grpc string
	args       []string
	process    *exec.Cmd
}

func (r *replica) start(t *testing.T) {
	t.Helper()
	cmd := roles.Command(r.args...)
	cmd.Stderr = os.Stderr
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r.process = cmd
	t.Cleanup(func() { kill(cmd) })
	h := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	roles.Until(t, "the replica is ready", func() bool {
		answer, err := h.Get("http://" + r.http + "/v1/status") //nolint:noctx // the guard ends the process
		if err != nil {
			return false
		}
		defer answer.Body.Close()
		return answer.StatusCode == http.StatusOK
	})
}

func kill(cmd *exec.Cmd) {
	_ = cmd.Process.Kill() // it may have ended
	_ = cmd.Wait()
}

// newStore starts an etcd for replicas, and returns its address.
func newStore(t *testing.T) string {
	t.Helper()
	e := embed.NewConfig()
	e.Dir, e.Name, e.UnsafeNoFsync = t.TempDir(), "one", true
	e.AdvertisePeerUrls = []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	e.InitialCluster = e.InitialClusterFromName("one")
	e.ListenPeerUrls = nil
	e.ListenClientUrls = []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	e.AdvertiseClientUrls = e.ListenClientUrls
	e.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	etcd, err := embed.StartEtcd(e)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(etcd.Close)
	<-etcd.Server.ReadyNotify()
	return etcd.Clients[0].Addr().String()
}

// A bed is two replicas, and the example of a client, which says what it sees.
type bed struct {
	t         *testing.T
	replicas  []*replica
	addresses string
	api       *client.Client
	example   *roles.Child
	seen      map[string]string // configurations by name, with their versions
	server    string            // which the example watches
}

func newBed(t *testing.T) *bed {
	b := &bed{t: t, seen: map[string]string{}}
	store := newStore(t)
	var servers, addresses []string
	for _, name := range []string{"a", "b"} {
		r := &replica{http: freeport.Address(t), grpc: freeport.Address(t)}
		r.args = []string{"replica", "--listen", r.http, "--grpc", r.grpc, "--etcd", store, "--replica", name}
		r.start(t)
		b.replicas = append(b.replicas, r)
		servers, addresses = append(servers, "http://"+r.http), append(addresses, r.grpc)
	}
	var err error
	if b.api, err = client.New(client.Config{Servers: servers}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.api.Close)
	b.addresses = strings.Join(addresses, ",")
	return b
}

// run starts a program of a client.
func (b *bed) run(cmd *exec.Cmd, name string) *roles.Child {
	cmd.Args = append(cmd.Args, b.addresses, name)
	return roles.Start(b.t, cmd)
}

// end ends the standard input of a program, which then says no more.
func (b *bed) end(c *roles.Child) {
	b.t.Helper()
	if err := c.Stdin.Close(); err != nil {
		b.t.Fatal(err)
	}
	if rest, err := io.ReadAll(c.Out); err != nil || len(rest) > 0 {
		b.t.Errorf("at the end: %q, %v", rest, err)
	}
	if err := c.Wait(); err != nil {
		b.t.Error(err)
	}
}

// do asks one of the replicas, and returns whether the resource exists.
func (b *bed) do(method, path string, body, out any) bool {
	b.t.Helper()
	answer, err := b.api.Do(b.t.Context(), client.Request{Method: method, Path: path, Body: body})
	var p *client.Problem
	if errors.As(err, &p) && p.Status == http.StatusNotFound {
		return false
	}
	if err != nil {
		b.t.Fatal(err)
	}
	defer answer.Body.Close()
	if out != nil {
		if err := json.NewDecoder(answer.Body).Decode(out); err != nil {
			b.t.Fatal(err)
		}
	}
	return true
}

// watching returns the replica that the example watches, and the other one.
func (b *bed) watching() (r, other *replica) {
	b.t.Helper()
	i := slices.IndexFunc(b.replicas, func(r *replica) bool { return r.grpc == b.server })
	if i < 0 {
		b.t.Fatalf("the example watches %q", b.server)
	}
	return b.replicas[i], b.replicas[1-i]
}

// follow reads what the example says until it has a complete snapshot that is as wanted, from a server.
func (b *bed) follow(server string, want map[string]string) {
	b.t.Helper()
	for {
		line := b.example.Line(b.t)
		words := strings.Fields(line)
		switch {
		case len(words) != 3:
			b.t.Fatalf("%q", line)
		case words[0] == "put":
			b.seen[words[1]] = words[2]
		case words[0] == "removed":
			if b.seen[words[1]] == "" {
				b.t.Fatalf("%q: it was not there", line)
			}
			delete(b.seen, words[1])
		case words[0] == "current" || words[0] == "stale":
			if words[2] != fmt.Sprint(len(b.seen)) {
				b.t.Fatalf("%q: %d by the changes", line, len(b.seen))
			}
			b.server = words[1]
			if words[0] == "current" && maps.Equal(b.seen, want) && (server == "" || server == b.server) {
				return
			}
		default:
			b.t.Fatalf("%q", line)
		}
	}
}

// greeting is no text.
var greeting = []byte{0xff, 0, '\n'}

const instance = "/v1/services/example/instances/1"

// heard waits until a replica has heard heartbeats, after the instance was removed behind the example's back.
func (b *bed) heard() {
	b.t.Helper()
	if !b.do(http.MethodDelete, instance, nil, nil) {
		b.t.Error("the registration was lost")
	}
	roles.Until(b.t, "it is registered again", func() bool { return b.do(http.MethodGet, instance, nil, nil) })
	last, beats := 0.0, 0
	roles.Until(b.t, "heartbeats are heard", func() bool {
		var list struct {
			Items []struct {
				Heard *float64 `json:"heard_seconds"`
			}
		}
		b.do(http.MethodGet, "/v1/services/example/instances", nil, &list)
		if len(list.Items) != 1 {
			b.t.Fatalf("the registration was lost: %+v", list.Items)
		}
		if heard := list.Items[0].Heard; heard != nil {
			if *heard < last {
				beats++
			}
			last = *heard
		}
		return beats == 3
	})
}

// acknowledged waits until a replica shows what the example has answered to a configuration: STATE VERSION RUNNING REASON…
func (b *bed) acknowledged(r *replica, config, want string) {
	b.t.Helper()
	api, err := client.New(client.Config{Servers: []string{"http://" + r.http}})
	if err != nil {
		b.t.Fatal(err)
	}
	defer api.Close()
	roles.Until(b.t, config+" is "+want, func() bool {
		answer, err := api.Do(b.t.Context(), client.Request{Method: http.MethodGet, Path: "/v1/configs/" + config + "/rollout"})
		if err != nil {
			return false // it may not know the configuration yet
		}
		defer answer.Body.Close()
		var rollout struct {
			Holdings []struct {
				State   string
				Version int
				Running int `json:"running_version"`
				Reason  string
			}
		}
		if err := json.NewDecoder(answer.Body).Decode(&rollout); err != nil || len(rollout.Holdings) != 1 {
			return false
		}
		one := rollout.Holdings[0]
		return strings.HasPrefix(fmt.Sprintln(one.State, one.Version, one.Running, one.Reason), want)
	})
}

// testClient runs the example of a client on two replicas, which are killed one after the other. Its watch misses no
// change, and its registration stays.
func testClient(t *testing.T, example *exec.Cmd) {
	b := newBed(t)
	b.do(http.MethodPut, "/v1/configs/greeting", map[string][]byte{"content_base64": greeting}, nil)
	b.example = b.run(example, "1")
	if line := b.example.Line(t); line != "registered" {
		t.Fatalf("%q", line)
	}
	if line := b.example.Line(t); line != fmt.Sprintf("read 1 %x", greeting) {
		t.Fatalf("%q", line)
	}
	want := map[string]string{"greeting": "1"}
	b.follow("", want)

	const changes, killAt = 100, 30
	first, second := b.watching()
	for i := range changes {
		if i == killAt {
			kill(first.process)
		}
		name := fmt.Sprint("c-", i)
		b.do(http.MethodPut, "/v1/configs/"+name, map[string]string{"content": name}, nil)
		want[name] = "1"
	}
	b.follow(second.grpc, want)
	b.acknowledged(second, "c-7", "applied 1 1 ")
	b.acknowledged(second, "greeting", "refused 1 0 no text")
	b.heard()

	first.start(t)
	for i := range changes {
		if i == killAt {
			kill(second.process)
		}
		name := fmt.Sprint("c-", i)
		if i%2 == 0 {
			b.do(http.MethodDelete, "/v1/configs/"+name, nil, nil)
			delete(want, name)
			continue
		}
		b.do(http.MethodPut, "/v1/configs/"+name, map[string]string{"content": "changed"}, nil)
		want[name] = "2"
	}
	b.follow(first.grpc, want)
	b.acknowledged(first, "c-7", "applied 2 2 ")
	b.acknowledged(first, "greeting", "refused 1 0 no text")
	b.heard()

	b.end(b.example)
	if b.do(http.MethodGet, instance, nil, nil) {
		t.Error("the instance is registered after the end")
	}
}

// testLeaders runs candidates one after the other. A leader stays while each replica is killed. When it is killed, or ends, the
// next one leads with a larger token, until it does not reach a control plane.
func testLeaders(t *testing.T, candidate func() *exec.Cmd) {
	const longest = 10 * time.Second // that a session of 8 s lasts without a renewal
	b := newBed(t)
	elections, token := 0, int64(0)
	leads := func(name string) bool {
		t.Helper()
		var lock struct {
			Value string
			Token int64
		}
		return b.do(http.MethodGet, "/v1/locks/leader", nil, &lock) && lock.Value == name && lock.Token == token
	}
	elected := func(c *roles.Child, name string) {
		t.Helper()
		line, before, n := c.Line(t), token, 0
		elections++
		if _, err := fmt.Sscanf(line, "leads %d %d", &token, &n); err != nil || n != elections || token <= before || !leads(name) {
			t.Fatalf("%q: %v, want election %d and a token after %d", line, err, elections, before)
		}
	}
	waits := func(name string) *roles.Child {
		t.Helper()
		c := b.run(candidate(), name)
		if line := c.Line(t); line != "waits" {
			t.Fatalf("%q", line)
		}
		return c
	}
	first := b.run(candidate(), "first")
	elected(first, "first")
	second := waits("second")
	for _, r := range b.replicas {
		kill(r.process)
		killed := time.Now()
		roles.Until(t, "it leads for longer", func() bool {
			if !leads("first") {
				t.Fatal("the lock was lost")
			}
			return time.Since(killed) > longest
		})
		r.start(t)
	}
	kill(first.Cmd)
	elected(second, "second")
	third := waits("third")
	b.end(second)
	elected(third, "third")
	for _, r := range b.replicas {
		kill(r.process)
	}
	if line := third.Line(t); !strings.HasPrefix(line, "the session is lost") {
		t.Fatalf("%q", line)
	}
	b.end(third)
}
