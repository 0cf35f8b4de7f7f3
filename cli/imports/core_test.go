package imports

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"dyno/cli/imports/draft"
	"dyno/lab/planfile"
)

// importedFrom imports a text, and checks the experiment as a whole.
func importedFrom(t *testing.T, format, src string, change func(s *draft.Source)) (*draft.Result, error) {
	t.Helper()
	t.Chdir(t.TempDir())
	if err := os.WriteFile("in", []byte(src), 0o600); err != nil {
		t.Fatal(err)
	}
	s := draft.Source{Format: format, File: "in", Out: "out.yaml"}
	if format == "nginx-log" {
		s.URL = "http://127.0.0.1:1"
	}
	if change != nil {
		change(&s)
	}
	r, err := Read(s)
	if err != nil {
		return nil, err
	}
	for _, f := range r.Files {
		if err := os.WriteFile(f.Name, f.Content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := planfile.ParseWithFiles("out.yaml", r.Text, planfile.Options{}); err != nil {
		t.Errorf("%v\n%s", err, r.Text)
	}
	return r, nil
}

// withCredentials are files whose requests have credentials of the value HIDDEN, each with a number after it.
var withCredentials = map[string]string{
	"curl": `curl -u ann:HIDDEN1 http://127.0.0.1:1/a
curl http://HIDDEN2:HIDDEN3@127.0.0.1:1/b -H 'X-Api-Key: HIDDEN4' -b 'sid=HIDDEN5; lang=HIDDEN6'
curl 'http://127.0.0.1:1/c?access_token=HIDDEN7&page=1' -d 'user=ann&password=HIDDEN8'
curl -H 'Proxy-Authorization: Basic HIDDEN9' --json '{"client_secret": "HIDDEN10"}' http://127.0.0.1:1/d
curl -F api_key=HIDDEN11 -x http://ann:HIDDEN12@127.0.0.1:2 http://127.0.0.1:1/e
curl --oauth2-bearer HIDDEN13 http://127.0.0.1:1/f`,
	"har": `{"log": {"entries": [{"request": {"method": "POST", "url": "http://127.0.0.1:1/?api_key=HIDDEN1", "headers": [
{"name": "Authorization", "value": "Bearer HIDDEN2"}, {"name": "Cookie", "value": "sid=HIDDEN3"}, {"name": "X-Auth-Token", "value": "HIDDEN4"}],
"postData": {"mimeType": "application/x-www-form-urlencoded", "params": [{"name": "password", "value": "HIDDEN5"}]}}, "response": {"status": 200}}]}}`,
	"vegeta":    "GET http://ann:HIDDEN1@127.0.0.1:1/a\nX-Api-Key: HIDDEN2\n\nGET http://127.0.0.1:1/b?token=HIDDEN3\n",
	"nginx-log": `127.0.0.1 - - [29/Mar/2026:03:00:02 +0200] "GET /b?access_token=HIDDEN1 HTTP/1.1" 200 0 "-" "-"`,
}

// Credentials are neither in an experiment nor in files that others may read; they are listed, without their values.
func TestCredentials(t *testing.T) {
	for format, src := range withCredentials {
		for _, out := range []string{"out.yaml", ""} {
			r, err := importedFrom(t, format, src, func(s *draft.Source) {
				s.Out = out
				if out == "" {
					for _, name := range []string{"PASSWORD", "ACCESS_TOKEN", "TOKEN", "API_KEY", "X_API_KEY", "X_AUTH_TOKEN", "COOKIE", "AUTHORIZATION", "AUTHORIZATION_2", "AUTHORIZATION_3", "PROXY_AUTHORIZATION", "CLIENT_SECRET"} {
						t.Setenv(name, "x")
					}
				}
			})
			if err != nil {
				t.Errorf("%s: %v", format, err)
				continue
			}
			open := string(r.Text) + fmt.Sprint(r.Items)
			private := ""
			for _, f := range r.Files {
				if f.Private {
					private += string(f.Content)
				} else {
					open += string(f.Content)
				}
			}
			if strings.Contains(open, "HIDDEN") || strings.Contains(open, base64.StdEncoding.EncodeToString([]byte("ann:HIDDEN1"))) {
				t.Errorf("%s: %s", format, open[max(0, strings.Index(open, "HIDDEN")-200):][:400])
			}
			if listed := strings.Count(open, "this is a credential"); listed == 0 || (private == "") != (out == "") {
				t.Errorf("%s to %q: %d are listed\n%s", format, out, listed, private)
			}
		}
	}
}

// A script puts credentials of the environment anywhere.
func TestCredentialsOfTheEnvironment(t *testing.T) {
	const script = `import http from 'k6/http';
export default function () {
  http.post('http://127.0.0.1:1/a/' + __ENV.DYNO_TEST_TOKEN, 'x=' + __ENV.DYNO_TEST_TOKEN + '&y=' + __ENV.DYNO_TEST_NAME, { headers: { 'X-Id': 'is ' + __ENV.DYNO_TEST_TOKEN } });
}`
	t.Setenv("DYNO_TEST_TOKEN", "HIDDEN1")
	t.Setenv("DYNO_TEST_NAME", "seen-by-all")
	for _, out := range []string{"out.yaml", ""} {
		r, err := importedFrom(t, "k6", script, func(s *draft.Source) { s.Out = out })
		if err != nil {
			t.Fatal(err)
		}
		text := string(r.Text) + fmt.Sprint(r.Items)
		if strings.Contains(text, "HIDDEN") || strings.Count(strings.ToLower(text), "{{ dyno_test_token }}") != 3 || !strings.Contains(text, "y=seen-by-all") {
			t.Errorf("to %q: %s", out, text)
		}
	}
}

// A file names others below its own folder only, unless the user allows it, whatever links lead where.
func TestFilesOutside(t *testing.T) {
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "key"), []byte("KEPT"), 0o600); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{
		"curl":   "curl http://127.0.0.1:1/first\ncurl -d @%[1]s http://127.0.0.1:1/a\ncurl -F a=@%[1]s http://127.0.0.1:1/b\ncurl -F 'a=<%[1]s' http://127.0.0.1:1/c\ncurl -T %[1]s http://127.0.0.1:1/d\ncurl --data-urlencode a@%[1]s http://127.0.0.1:1/e\ncurl --cacert %[1]s http://127.0.0.1:1/f",
		"vegeta": "GET http://127.0.0.1:1/first\n\nPOST http://127.0.0.1:1/a\n@%[1]s\n",
		"ghz":    `{"call": "a.B/C", "host": "127.0.0.1:1", "insecure": true, "data": "{}", "metadata-file": "%[1]s"}`,
	}
	for format, text := range files {
		for _, name := range []string{filepath.Join(outside, "key"), "linked", "../" + filepath.Base(outside) + "/key"} {
			for _, allowed := range []bool{false, true} {
				r, err := importedFrom(t, format, fmt.Sprintf(text, name), func(s *draft.Source) {
					s.AllowFiles = allowed
					if err := os.Symlink(filepath.Join(outside, "key"), "linked"); err != nil {
						t.Fatal(err)
					}
				})
				if err != nil {
					if allowed {
						continue // the file has not the form that is wanted of it
					}
					t.Errorf("%s: %v", format, err)
					continue
				}
				all := string(r.Text)
				for _, f := range r.Files {
					all += string(f.Content)
				}
				listed := slices.ContainsFunc(r.Items, func(i draft.Item) bool { return strings.Contains(i.Why+i.Hint, "--allow-files") })
				if read := strings.Contains(all, "KEPT") || format == "curl" && strings.Contains(all, "ca: "); read != allowed || listed == allowed {
					t.Errorf("%s, %s, allowed %v: read %v, listed %v\n%s", format, name, allowed, read, listed, all)
				}
			}
		}
	}
}

// Settings that the rules of experiments do not permit are listed with their lines. The rest is
// imported.
func TestRepair(t *testing.T) {
	entry := func(method, url string, headers ...string) string {
		var all []draft.Field
		for i := 0; i < len(headers); i += 2 {
			all = append(all, draft.Field{Name: headers[i], Value: headers[i+1]})
		}
		text, err := json.Marshal(map[string]any{"request": map[string]any{"method": method, "url": url, "headers": all}, "response": map[string]any{"status": 200}})
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	har := func(entries ...string) string {
		return `{"log": {"entries": [` + "\n" + entry("GET", "http://127.0.0.1:1/kept") + ",\n" + strings.Join(entries, ",\n") + "]}}"
	}
	var long []string
	for n := range 900 {
		e := entry("GET", fmt.Sprintf("http://127.0.0.1:1/long/%d", n), "A1", "1", "A2", "2", "A3", "3", "A4", "4", "A5", "5", "A6", "6", "A7", "7", "A8", "8", "A9", "9", "A10", "10")
		long = append(long, e)
	}
	for name, src := range map[string]string{
		"a method that is a tunnel":        har(entry("CONNECT", "http://127.0.0.1:1/x")),
		"a method that is no word":         har(entry("GE T", "http://127.0.0.1:1/x")),
		"an upgrade":                       har(entry("GET", "http://127.0.0.1:1/x", "Upgrade", "websocket", "Connection", "Upgrade")),
		"a field that needs a name":        har(entry("GET", "http://127.0.0.1:1/x", "", "x")),
		"a field with a blank in its name": har(entry("GET", "http://127.0.0.1:1/x", "A B", "x")),
		"a field with a line break":        har(entry("GET", "http://127.0.0.1:1/x", "A", "x\r\nB: y")),
		"a Host that varies":               har(entry("GET", "http://127.0.0.1:1/x", "Host", "a b")),
		"a path that is too long":          har(entry("GET", "http://127.0.0.1:1/"+strings.Repeat("x", 100_000))),
		"a field that is too long":         har(entry("GET", "http://127.0.0.1:1/x", "A", strings.Repeat("x", 100_000))),
		"another scheme":                   har(entry("GET", "ws://127.0.0.1:1/x")),
		"data in the URL":                  har(entry("GET", "data:text/plain,x")),
		"too many lines":                   har(long...),
	} {
		r, err := importedFrom(t, "har", src, nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !strings.Contains(string(r.Text), "path: /kept") {
			t.Errorf("%s: the other request is lost:\n%s", name, r.Text)
		}
		if !slices.ContainsFunc(r.Items, func(i draft.Item) bool { return i.Line >= 3 }) {
			t.Errorf("%s: nothing is listed: %v", name, r.Items)
		}
	}
}

// A log's status that no client receives is not expected, and neither is a rare one.
func TestLoggedStatuses(t *testing.T) {
	for statuses, want := range map[string]string{
		"200": "", "499": "", "444 444": "", "408": "", "494": "", "404": "404", "404 499 499 499": "404", "404 500": "404, 500",
		"200 404 404": "200, 404", "200 404": "", "000": "", "499 200": "",
	} {
		var b strings.Builder
		for status := range strings.FieldsSeq(statuses) {
			fmt.Fprintf(&b, "127.0.0.1 - - [29/Mar/2026:03:00:02 +0200] \"GET /b HTTP/1.1\" %s 0 \"-\" \"-\"\n", status)
		}
		r, err := importedFrom(t, "nginx-log", b.String(), nil)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for line := range strings.Lines(string(r.Text)) {
			if after, found := strings.CutPrefix(strings.TrimSpace(line), "status: "); found {
				got = strings.Trim(after, `"`)
			}
		}
		if got != want {
			t.Errorf("%s: %s, want %s", statuses, got, want)
		}
	}
}
