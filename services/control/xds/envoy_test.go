package xds

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"

	"dyno/services/control/plane"
	"dyno/services/control/plane/planetest"
	"dyno/services/control/resource"
)

// An envoy is the proxy itself, with the configuration that docs/services/control-xds.md has.
type envoy struct {
	admin, edge string // addresses
	client      *http.Transport
}

// startEnvoy starts Envoy, which asks the bed's control plane.
func startEnvoy(b *bed, api string) *envoy {
	return startEnvoyAs(b, api, "edge-1", `{outbound: "127.0.0.1:0", labels: {app: edge}}`)
}

// startEnvoyAs starts it with a name and metadata.
func startEnvoyAs(b *bed, api, id, metadata string) *envoy {
	t := b.t
	t.Helper()
	program, err := filepath.Abs("testdata/clients/python-envoy/envoy/_bin/envoy")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(program); err != nil {
		t.Skip("no Envoy: scripts/clients.sh installs it where pip is, on Linux on x86-64 (there is no wheel for others)")
	}
	dir := t.TempDir()
	config, adminFile, said := filepath.Join(dir, "envoy.yaml"), filepath.Join(dir, "admin"), filepath.Join(dir, "said")
	if err := os.WriteFile(config, documented(t, b.address, api, id, metadata), 0o600); err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(said)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, program, "-c", config, "--admin-address-path", adminFile, "--concurrency", "1", "--disable-hot-restart", "--log-level", "warning") //nolint:gosec // of that folder
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay, cmd.Stdout, cmd.Stderr = hangGuard, log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		if err := cmd.Wait(); err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("Envoy ended with %v", err)
		}
		log.Close()
		if text, err := os.ReadFile(said); err == nil && t.Failed() {
			t.Logf("Envoy said:\n%s", text)
		}
	})
	e := &envoy{client: &http.Transport{}}
	t.Cleanup(e.client.CloseIdleConnections)
	for e.edge == "" {
		select {
		case <-b.ctx.Done():
			t.Fatal("Envoy listens nowhere")
		case <-time.After(20 * time.Millisecond):
		}
		if e.admin == "" {
			at, err := os.ReadFile(adminFile)
			if _, _, incomplete := net.SplitHostPort(string(at)); err != nil || incomplete != nil {
				continue
			}
			e.admin = string(at)
		}
		e.edge = e.listens(t)
	}
	return e
}

// documented is the configuration of docs/services/control-xds.md, with the addresses of this test.
func documented(t *testing.T, control, api, id, metadata string) []byte {
	t.Helper()
	page, err := os.ReadFile("../../../docs/services/control-xds.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, found := strings.Cut(string(page), "\nnode:\n  id: edge-1")
	block, _, ended := strings.Cut(block, "\n```")
	if !found || !ended {
		t.Fatal("docs/services/control-xds.md shows no configuration for Envoy")
	}
	_, port, err := net.SplitHostPort(control)
	if err != nil {
		t.Fatal(err)
	}
	block = "node:\n  id: edge-1" + block + "\nadmin: {address: {socket_address: {address: 127.0.0.1, port_value: 0}}}\n" +
		"layered_runtime: {layers: [{name: operator, static_layer: {re2.max_program_size.error_level: 60}}]}\n"
	for from, to := range map[string]string{
		"port_value: 7101": "port_value: " + port, `{outbound: "0.0.0.0:8080", labels: {app: edge}}`: metadata, "id: edge-1": "id: " + id, "api_type: GRPC ": "api_type: " + api + " ",
	} {
		if strings.Count(block, from) != 1 {
			t.Fatalf("docs/services/control-xds.md: the configuration for Envoy has %q %d times, want once", from, strings.Count(block, from))
		}
		block = strings.Replace(block, from, to, 1)
	}
	return []byte(block)
}

// ask asks Envoy's administration interface.
func (e *envoy) ask(t *testing.T, path string) []byte {
	t.Helper()
	response, err := http.Get("http://" + e.admin + path) //nolint:gosec // a process of this test
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// listens is where Envoy takes requests, "" until it does.
func (e *envoy) listens(t *testing.T) string {
	t.Helper()
	if !bytes.HasPrefix(e.ask(t, "/ready"), []byte("LIVE")) {
		return ""
	}
	var all struct {
		Listeners []struct {
			Address struct {
				Socket struct {
					Address string `json:"address"`
					Port    int    `json:"port_value"`
				} `json:"socket_address"`
			} `json:"local_address"`
		} `json:"listener_statuses"`
	}
	if err := json.Unmarshal(e.ask(t, "/listeners?format=json"), &all); err != nil {
		t.Fatal(err)
	}
	if len(all.Listeners) != 1 || all.Listeners[0].Address.Socket.Port == 0 {
		return ""
	}
	at := all.Listeners[0].Address.Socket
	return net.JoinHostPort(at.Address, strconv.Itoa(at.Port))
}

// TestEnvoy: Envoy finds services, with nothing but the configuration in docs/services/control-xds.md, and
// refuses nothing of what it is told.
func TestEnvoy(t *testing.T) {
	for _, api := range []string{"GRPC", "DELTA_GRPC"} {
		t.Run(api, func(t *testing.T) {
			t.Parallel()
			b := newBed(t, nil)
			service := "envoy-" + strings.ToLower(strings.TrimSuffix(api, "_GRPC"))
			// Names that hosts cannot have are not sent: Envoy would refuse all hosts, or take some of others.
			for _, name := range []string{"läden", "a b", "*" + service, service + "*"} {
				b.put(&resource.Instance{Service: name, ID: "é", Address: "192.0.2.1", Port: 1, Weight: 1, TTL: 3600})
			}
			policy := &resource.Policy{Namespace: "default", Name: "règle 1"}
			if err := resource.Decode([]byte(`{"rules":[{"action":"limit","limit":{"requests_per_second":1000000}},{"action":"retry","retry":{"attempts":2}},{"match":{"path_prefix":"/none"},"action":"route","route":[{"service":"läden","weight":1}]}]}`), policy); err != nil {
				t.Fatal(err)
			}
			if _, err := b.plane.Put(b.ctx, planetest.Anybody, policy, plane.Options{}); err != nil {
				t.Fatal(err)
			}
			proxy := startEnvoy(b, api)
			c, err := grpc.NewClient("passthrough:///"+proxy.edge, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority(service))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			b.follows(service, grpc_health_v1.NewHealthClient(c), codes.Unimplemented) // which is gRPC's for 404

			// An HTTP/1.1 client reaches an HTTP/1.1 server, by the whole name and with its own path. Only an
			// instance that takes requests gets any.
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				fmt.Fprint(w, r.Proto, " ", r.URL)
			}))
			defer server.Close()
			plain := &resource.Instance{
				Service: service + "-plain", ID: "1", Address: "127.0.0.1", Port: server.Listener.Addr().(*net.TCPAddr).Port, Weight: 1, TTL: 3600,
			}
			b.put(plain)
			get := func(host string) (int, string) {
				request, err := http.NewRequestWithContext(b.ctx, http.MethodGet, "http://"+proxy.edge+"/a/b?c=d", http.NoBody)
				if err != nil {
					t.Fatal(err)
				}
				request.Host = host
				response, err := http.DefaultTransport.RoundTrip(request)
				if err != nil {
					t.Fatal(err)
				}
				defer response.Body.Close()
				text, err := io.ReadAll(response.Body)
				if err != nil {
					t.Fatal(err)
				}
				return response.StatusCode, string(text)
			}
			becomes := func(host string, want int) (text string) {
				t.Helper()
				for {
					code, text := get(host)
					if code == want {
						return text
					}
					if b.ctx.Err() != nil {
						t.Fatalf("%s: status %d: %s, want %d", host, code, text, want)
					}
				}
			}
			if text := becomes(plain.Service+".default", http.StatusOK); text != "HTTP/1.1 /a/b?c=d" {
				t.Errorf("the server got %s", text)
			}
			draining := *plain
			draining.Weight = 0
			b.put(&draining)
			becomes(plain.Service+".default", http.StatusServiceUnavailable)
			b.put(plain)
			becomes(plain.Service+".default:80", http.StatusOK)
			b.remove(plain)
			becomes(plain.Service+".default", http.StatusNotFound)
			http.DefaultTransport.(*http.Transport).CloseIdleConnections()

			faults := strings.Split(strings.TrimSpace(string(proxy.ask(t, "/stats?filter=(update_rejected|no_cluster|init_fetch_timeout)"))), "\n")
			for _, line := range faults {
				if !strings.HasSuffix(line, ": 0") {
					t.Errorf("Envoy says %s", line)
				}
			}
			if len(faults) < 5 { // of clusters, their instances and routes
				t.Errorf("Envoy counts only %q", faults)
			}
		})
	}
}
