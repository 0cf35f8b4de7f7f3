package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"dyno/internal/exit"
	"dyno/internal/freeport"
	"dyno/results/rundir"
)

// Each request arrives with a trace id of its own, over each protocol, and the slowest are
// listed with theirs.
func TestTraceparent(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"message": "x", "rows.csv": "id\n1\n2\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name, version string
		args          []string
	}{
		{"HTTP/1.1", "HTTP/1.1", []string{"http", "URL/x"}},
		{"HTTP/2", "HTTP/2.0", []string{"http", "--http2", "--streams", "3", "URL/x"}},
		{"gRPC", "HTTP/2.0", []string{"grpc", "--kind", "unary", "--binary-file", filepath.Join(dir, "message"), "-m", `{"x-id": "1"}`, "HOST", "a.B/C"}},
		{"rows", "HTTP/1.1", []string{"http", "--data-file", filepath.Join(dir, "rows.csv"), "-H", "X-Id: {{id}}", "--body", "{{id}}", "URL/{{id}}"}},
		{"gRPC-Web", "HTTP/1.1", []string{"grpc", "--web", "binary", "--kind", "unary", "--binary-file", filepath.Join(dir, "message"), "HOST", "a.B/C"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var mu sync.Mutex
			seen := map[string]int{}
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				value := r.Header.Values("Traceparent")
				seen[strings.Join(append(value, r.Proto), "|")]++
				mu.Unlock()
				if r.Header.Get("X-Id") == "" && c.name == "rows" {
					t.Errorf("no X-Id: %v", r.Header)
				}
				_, _ = io.Copy(io.Discard, r.Body)
				switch kind := r.Header.Get("Content-Type"); {
				case strings.HasPrefix(kind, "application/grpc-web"):
					w.Header().Set("Content-Type", kind)
					_, _ = io.WriteString(w, "\x00\x00\x00\x00\x00\x80\x00\x00\x00\x10grpc-status: 0\r\n")
				case strings.HasPrefix(kind, "application/grpc"):
					w.Header().Set("Content-Type", kind)
					w.Header().Set("Trailer", "grpc-status")
					_, _ = io.WriteString(w, "\x00\x00\x00\x00\x00")
					w.Header().Set("grpc-status", "0")
				}
			}))
			server.Config.Protocols = new(http.Protocols)
			server.Config.Protocols.SetHTTP1(true)
			server.Config.Protocols.SetUnencryptedHTTP2(true)
			server.Start()
			defer server.Close()
			out := filepath.Join(t.TempDir(), "run")
			args := []string{c.args[0], "-q", "-n", "60", "-c", "2", "--traceparent", "--trace-url", "https://traces.example/{id}", "-o", out}
			for _, arg := range c.args[1:] {
				args = append(args, strings.NewReplacer("URL", server.URL, "HOST", server.Listener.Addr().String()).Replace(arg))
			}
			var stdout, stderr strings.Builder
			if code := Main(t.Context(), args, strings.NewReader(""), &stdout, &stderr); code != exit.Done && code != exit.Invalid {
				t.Fatalf("exit code %d, %s", code, stderr.String())
			}
			mu.Lock()
			defer mu.Unlock()
			ids := map[string]bool{}
			for value, n := range seen {
				text, version, _ := strings.Cut(value, "|")
				parts := strings.Split(text, "-")
				if n != 1 || version != c.version || len(parts) != 4 || len(parts[1]) != 32 || parts[3] != "01" {
					t.Fatalf("%s came %d times", value, n)
				}
				ids[parts[1]] = true
			}
			if len(ids) < 60 {
				t.Errorf("%d traces of 60 requests", len(ids))
			}
			slowest := slowestOf(t, out)
			if len(slowest) != 10 {
				t.Errorf("%d slow requests", len(slowest))
			}
			for i, x := range slowest {
				if !ids[x.TraceID] || i > 0 && x.Response > slowest[i-1].Response {
					t.Errorf("%+v has a trace that the server has not seen, or is out of order", x)
				}
			}
			stdout.Reset()
			Main(t.Context(), []string{"report", "--full", out}, strings.NewReader(""), &stdout, &stderr)
			if want := "https://traces.example/" + slowest[0].TraceID; !strings.Contains(stdout.String(), want) {
				t.Errorf("no %s in\n%s", want, stdout.String())
			}
		})
	}
}

func slowestOf(t *testing.T, run string) []rundir.Slow {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(run, "trials", "*", rundir.TrialFile))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	var trial rundir.Trial
	if err := json.Unmarshal(text, &trial); err != nil {
		t.Fatal(err)
	}
	return trial.Slowest
}

// What nginx has logged of each request is a valid traceparent, and no two have the same span. Requests that follow
// redirects have the trace of the first.
func TestTraceparentInLogOfNginx(t *testing.T) {
	nginx, err := exec.LookPath("nginx")
	if err != nil {
		t.Skip("nginx is not installed; scripts/setup.sh installs it: ", err)
	}
	const requests = 200
	valid := regexp.MustCompile("^00-([0-9a-f]{32})-([0-9a-f]{16})-01$")
	for name, args := range map[string][]string{"HTTP/1.1": nil, "HTTP/2": {"--http2", "--streams", "3"}} {
		t.Run(name, func(t *testing.T) {
			dir, address, listen := t.TempDir(), freeport.Address(t), ""
			if len(args) > 0 {
				listen = " http2"
			}
			write(t, filepath.Join(dir, "nginx.conf"), fmt.Sprintf(`daemon off; pid nginx.pid; worker_processes 1;
events { worker_connections 100; }
http {
	log_format traces '$http_traceparent $uri'; access_log log traces;
	client_body_temp_path tmp1; proxy_temp_path tmp2; fastcgi_temp_path tmp3; uwsgi_temp_path tmp4; scgi_temp_path tmp5;
	server {
		listen %s%s;
		location = /first { return 301 /second; } location = /second { return 307 /third; } location = /third { return 200 ok; }
	}
}`, address, listen))
			end := serveBy(t, address, nginx, "-p", dir, "-c", "nginx.conf", "-e", "stderr")
			l := load(t, "", append([]string{"http", "-q", "-n", strconv.Itoa(requests), "-c", "2", "--location", "--traceparent", "http://" + address + "/first"}, args...)...)
			if l.trial.Counts.OK != requests {
				t.Fatalf("exit code %d, %+v\n%s", l.code, l.trial.Counts, l.stderr)
			}
			end()
			log, err := os.ReadFile(filepath.Join(dir, "log"))
			if err != nil {
				t.Fatal(err)
			}
			spans, traces := map[string]bool{}, map[string][]string{}
			for line := range strings.Lines(string(log)) {
				value, path, _ := strings.Cut(strings.TrimSpace(line), " ")
				parts := valid.FindStringSubmatch(value)
				if parts == nil || strings.Trim(parts[1], "0") == "" || strings.Trim(parts[2], "0") == "" || spans[parts[2]] {
					t.Fatalf("%s: not valid, or there is another request with its span", line)
				}
				spans[parts[2]] = true
				traces[parts[1]] = append(traces[parts[1]], path)
			}
			if len(spans) != 3*requests || len(traces) != requests {
				t.Errorf("%d requests in %d traces", len(spans), len(traces))
			}
			for id, paths := range traces {
				if !slices.Equal(paths, []string{"/first", "/second", "/third"}) {
					t.Errorf("%s has %v", id, paths)
				}
			}
			for _, x := range l.trial.Slowest {
				if traces[x.TraceID] == nil {
					t.Errorf("nginx has not seen %+v", x)
				}
			}
		})
	}
}

func TestTraceFaults(t *testing.T) {
	for want, args := range map[string][]string{
		"--trace-url: requests have no trace ids":      {"--trace-url", "http://a/{id}"},
		`--trace-url: "http://a/" is no URL of traces`: {"--traceparent", "--trace-url", "http://a/"},
		`"javascript:{id}" is no URL`:                  {"--traceparent", "--trace-url", "javascript:{id}"},
	} {
		var stdout, stderr strings.Builder
		code := Main(t.Context(), append([]string{"http", "-q", "-n", "1", "http://127.0.0.1:1/"}, args...), strings.NewReader(""), &stdout, &stderr)
		if code != exit.Usage || !strings.Contains(stderr.String(), want) {
			t.Errorf("%v: exit code %d, %s", args, code, stderr.String())
		}
	}
}
