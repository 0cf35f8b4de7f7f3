package ui

import (
	"net/url"
	"os"
	"strings"
	"testing"

	"dyno/results/rundir"
)

func TestValidate(t *testing.T) {
	c := Config{Listen: "0.0.0.0:1", Experiments: "x"}
	err := c.Validate()
	for _, want := range []string{`listen: "0.0.0.0:1": `, `runs: "": `, "runner: none: ", "stop timeout: 0s: "} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("not reported: %s in %v", want, err)
		}
	}
	if err := Defaults().Validate(); err != nil {
		t.Error(err)
	}
}

func TestParseListen(t *testing.T) {
	for text, want := range map[string]string{
		"127.0.0.1:80": "127.0.0.1:80", "localhost:0": "127.0.0.1:0", "[::1]:7": "[::1]:7", "127.9.9.9:1": "127.9.9.9:1", "[::ffff:127.0.0.1]:1": "127.0.0.1:1",
		"": "", "127.0.0.1": "", ":80": "", "0.0.0.0:80": "", "[::]:80": "", "example.org:80": "", "192.0.2.1:80": "", "127.0.0.1:http": "", "127.0.0.1:65536": "", "[::1%lo]:80": "",
	} {
		a, err := parseListen(text)
		if got := a.String(); (err == nil) != (want != "") || err == nil && got != want {
			t.Errorf("%q: %s, %v, want %q", text, got, err, want)
		}
	}
}

// Only requests from the page, or from something that is not a browser, are answered.
func TestRefusals(t *testing.T) {
	b := newBed(t, nil)
	host := strings.TrimPrefix(b.url, "http://")
	port := host[strings.LastIndex(host, ":"):]
	for _, c := range []struct {
		method, host, origin, site string
		want                       int
	}{
		{"GET", host, "", "", 200},
		{"GET", "localhost" + port, "http://localhost" + port, "same-origin", 200},
		{"GET", host, b.url, "same-origin", 200},
		{"GET", host, "", "none", 200},
		{"POST", host, "", "none", 403},
		{"GET", "evil.example" + port, "", "", 403},
		{"GET", "127.0.0.1", "", "", 403},
		{"GET", "127.0.0.2" + port, "", "", 403},
		{"GET", "localhost:1", "", "", 403},
		{"GET", host, "http://evil.example", "", 403},
		{"GET", host, "null", "", 403},
		{"GET", host, "https://" + host, "", 403},
		{"GET", host, "http://localhost" + port, "", 403},
		{"GET", host, "", "cross-site", 403},
		{"GET", host, "", "same-site", 403},
		{"GET", host, b.url, "anything", 403},
	} {
		for _, path := range []string{"/", "/api/runs", "/ui.js"} {
			r := b.request(c.method, path, "")
			r.Host = c.host
			for name, value := range map[string]string{"Origin": c.origin, "Sec-Fetch-Site": c.site} {
				if value != "" {
					r.Header.Set(name, value)
				}
			}
			if got, text := b.do(r); got != c.want {
				t.Errorf("%+v %s: %d %s", c, path, got, text)
			}
		}
	}
	if n := b.runner.count(); n != 0 {
		t.Errorf("%d runs started", n)
	}
}

// Without the token nothing below /api is readable, and nothing is started or stopped.
func TestToken(t *testing.T) {
	b := newBed(t, nil)
	b.addRun("one", nil)
	id, x := b.start()
	for _, authorization := range []string{"", "Bearer", "Bearer ", "Bearer " + b.token + "x", "Bearer " + b.token[1:], "Basic " + b.token, b.token} {
		for path, method := range map[string]string{
			"/api/runs": "GET", "/api/runs/one": "GET", "/api/diff?a=one&b=one": "GET", "/api/history?experiment=tame": "GET", "/api/experiments": "GET",
			"/api/live": "GET", "/api/runs/one/report.html": "GET", "/api/nothing": "GET", "/api/runs/" + id + "/stop": "POST",
		} {
			r := b.request(method, path, "")
			r.Header.Set("Authorization", authorization)
			if got, text := b.do(r); got != 401 {
				t.Errorf("%q %s: %d %s", authorization, path, got, text)
			}
		}
		r := b.request("POST", "/api/runs", `{"experiment":"tame.yaml"}`)
		r.Header.Set("Authorization", authorization)
		if got, _ := b.do(r); got != 401 {
			t.Errorf("%q start: %d", authorization, got)
		}
	}
	if b.runner.count() != 1 || len(x.stops) != 0 {
		t.Error("something was started or stopped")
	}
	x.end(Outcome{})
	other := newBed(t, nil)
	if other.token == b.token || len(b.token) < 32 {
		t.Errorf("tokens %q and %q", b.token, other.token)
	}
}

// The page is available without a token, with headers that isolate it.
func TestHeaders(t *testing.T) {
	b := newBed(t, nil)
	b.addRun("one", nil)
	for path, type_ := range map[string]string{"/": "text/html; charset=utf-8", "/ui.js": "text/javascript; charset=utf-8", "/ui.css": "text/css; charset=utf-8", "/api/runs": "application/json"} {
		resp, err := b.client.Do(b.request("GET", path, ""))
		check(t, err)
		resp.Body.Close()
		h := resp.Header
		if resp.StatusCode != 200 || h.Get("Content-Type") != type_ || h.Get("Content-Security-Policy") != pagePolicy || h.Get("X-Content-Type-Options") != "nosniff" ||
			h.Get("Referrer-Policy") != "no-referrer" || h.Get("Cross-Origin-Opener-Policy") != "same-origin" || h.Get("Cache-Control") != "no-store" || h.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: %s %v", path, resp.Status, h)
		}
	}
	for _, path := range []string{"/assets/", "/page.html", "/favicon.ico", "/api/", "/events?topic=live", "/publish", "/.well-known/mercure"} {
		if status, _ := b.do(b.request("GET", path, "")); status != 404 {
			t.Errorf("%s: %d", path, status)
		}
	}
	for _, part := range []string{"'unsafe", "http", "*"} {
		if strings.Contains(pagePolicy, part) {
			t.Errorf("the policy has %s", part)
		}
	}
}

// A report opens with its own key, in a sandbox.
func TestReport(t *testing.T) {
	b := newBed(t, nil)
	b.addRun("nightly/one", nil)
	b.addRun("two", nil)
	write(t, b.path("runs", "two", "report.html"), "<script>evil()</script>")
	for _, run := range get[RunList](b, "/api/runs").Runs {
		r := b.request("GET", run.Report, "")
		r.Header.Del("Authorization")
		resp, err := b.client.Do(r)
		check(t, err)
		resp.Body.Close()
		h := resp.Header
		if resp.StatusCode != 200 || h.Get("Content-Security-Policy") != reportPolicy || h.Get("Content-Type") != "text/html; charset=utf-8" || h.Get("Cross-Origin-Opener-Policy") != "" {
			t.Errorf("%s: %s %v", run.Report, resp.Status, h)
		}
		if status, text := b.do(r); status != 200 || text != "<!doctype html><title>tame</title>" {
			t.Errorf("%s: %d %s", run.Report, status, text)
		}
	}
	_, key, _ := strings.Cut(get[RunList](b, "/api/runs?query=two").Runs[0].Report, "key=")
	for path, want := range map[string]int{
		"/api/runs/nightly%2Fone/report.html?key=" + key: 401, "/api/runs/two/report.html?key=" + key[1:]: 401, "/api/runs/two/report.html?key=": 401,
		"/api/runs/two?key=" + key: 401, "/api/runs?key=" + key: 401, "/api/runs/two/report.html?key=" + key: 200,
	} {
		r := b.request("GET", path, "")
		r.Header.Del("Authorization")
		if status, text := b.do(r); status != want {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	none := newBed(t, func(c *Config) { c.Report = nil })
	none.addRun("two", nil)
	if run := get[RunList](none, "/api/runs").Runs[0]; run.Report != "" {
		t.Errorf("a report at %s", run.Report)
	}
	if status, _ := none.do(none.request("GET", "/api/runs/two/report.html", "")); status != 404 {
		t.Errorf("%d", status)
	}
}

const secret = "SECRET beyond the folders"

// outsiders are files beyond the folders, and links to them from within.
func (b *bed) outsiders() {
	b.addRun("real", nil)
	b.addRun("../outside/run", func(r *rundir.Run) { r.Name = secret })
	write(b.t, b.path("outside", "secret.yaml"), strings.Replace(experimentFile, "Is it?", secret, 1))
	write(b.t, b.path("outside", "secret"), secret)
	for name, to := range map[string]string{
		"runs/link": b.path("outside", "run"), "runs/up": "..", "runs/root": "/", "runs/alias": "real",
		"experiments/link.yaml": b.path("outside", "secret.yaml"), "experiments/folder": b.path("outside"), "experiments/up": "../outside", "experiments/alias.yaml": "tame.yaml",
	} {
		check(b.t, os.Symlink(to, b.path(name)))
	}
	check(b.t, os.Mkdir(b.path("runs", "hollow"), 0o755))
	check(b.t, os.Symlink(b.path("outside", "run", "run.json"), b.path("runs", "hollow", "run.json")))
	check(b.t, os.Mkdir(b.path("runs", "held"), 0o755))
	check(b.t, os.Symlink("../../outside/run/run.json", b.path("runs", "held", "run.json")))
}

// No name leads out of the folders: not by dots, not by links, not as an absolute path.
func TestPaths(t *testing.T) {
	b := newBed(t, nil)
	b.outsiders()
	list := get[RunList](b, "/api/runs")
	for _, r := range list.Runs {
		if want := map[string]State{"real": Valid, "hollow": Broken, "held": Broken}[r.ID]; r.State != want {
			t.Errorf("%s is %s: %s", r.ID, r.State, r.Reason)
		}
	}
	if len(list.Runs) != 3 {
		t.Errorf("runs: %+v", list.Runs)
	}
	if all := get[ExperimentList](b, "/api/experiments").Experiments; len(all) != 1 || all[0].ID != "tame.yaml" {
		t.Errorf("experiments: %+v", all)
	}
	for _, id := range []string{
		"..%2Foutside%2Frun", "link", "up%2Foutside%2Frun", "root", "hollow", "held", "real%2F..%2F..%2Foutside%2Frun", strings.ReplaceAll(b.path("outside", "run"), "/", "%2F"),
		"%2e%2e%2foutside%2frun", "..", ".", "%00", "real%00", "real%2F", ".%2Freal", "real%2Ftrials", "",
	} {
		for _, path := range []string{"/api/runs/" + id, "/api/runs/" + id + "/report.html", "/api/diff?a=real&b=" + id, "/api/diff?b=real&a=" + id} {
			r := b.request("GET", path, "")
			if status, text := b.do(r); strings.Contains(text, secret) || id != "" && status == 200 && !strings.HasPrefix(text, `{"runs"`) || status >= 500 {
				t.Errorf("%s: %d %s", path, status, text)
			}
		}
	}
	for _, id := range []string{"../outside/secret.yaml", "link.yaml", "folder/secret.yaml", "up/secret.yaml", b.path("outside", "secret.yaml"), "./tame.yaml", "tame.yaml/", "", ".", "-h", "tame.yaml\x00", "/tame.yaml"} {
		body := `{"experiment":` + quoted(id) + `}`
		if status, text := b.do(b.request("POST", "/api/runs", body)); status != 404 || strings.Contains(text, secret) {
			t.Errorf("%q: %d %s", id, status, text)
		}
	}
	if n := b.runner.count(); n != 0 {
		t.Errorf("%d runs started", n)
	}
}

// FuzzPaths: whatever path is requested, nothing beyond the folders is shown or started.
func FuzzPaths(f *testing.F) {
	b := newBed(f, nil)
	b.outsiders()
	for _, seed := range []string{"real", "../outside/run", "link", "up/outside/run", "..%2f..", "tame.yaml", "\x00", "a//b", "folder/secret.yaml", "/etc/passwd", "real/run.json", "./tame.yaml"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, id string) {
		for _, path := range []string{"/api/runs/" + url.PathEscape(id), "/api/runs/" + url.PathEscape(id) + "/report.html", "/api/diff?a=real&b=" + url.QueryEscape(id), "/api/history?experiment=" + url.QueryEscape(id)} {
			if status, text := serve(b, "GET", path, ""); strings.Contains(text, secret) || status >= 500 {
				t.Errorf("%s: %d %s", path, status, text)
			}
		}
		if id == "tame.yaml" {
			return
		}
		if status, text := serve(b, "POST", "/api/runs", `{"experiment":`+quoted(id)+`}`); status != 404 && status != 400 || strings.Contains(text, secret) {
			t.Errorf("start %q: %d %s", id, status, text)
		}
		if n := b.runner.count(); n != 0 {
			t.Fatalf("%q started %s", id, b.runner.latest().launch.File)
		}
	})
}
