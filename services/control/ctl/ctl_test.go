package ctl

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"pgregory.net/rapid"

	"dyno/internal/exit"
	"dyno/internal/leak"
	"dyno/services/control/resource"
)

func TestMain(m *testing.M) { leak.Main(m) }

// run carries out a command line, and returns what it wrote and its error.
func run(t *testing.T, stdin string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	root := &cobra.Command{Use: "dyno", SilenceUsage: true, SilenceErrors: true}
	root.AddCommand(Command())
	var out, errs bytes.Buffer
	root.SetArgs(append([]string{"ctl"}, args...))
	root.SetIn(strings.NewReader(stdin))
	root.SetOut(&out)
	root.SetErr(&errs)
	err = root.ExecuteContext(t.Context())
	return out.String(), errs.String(), err
}

// code is the exit code of an error.
func code(err error) int {
	var f *exit.Failure
	switch {
	case err == nil:
		return 0
	case errors.As(err, &f):
		return f.Code
	}
	return exit.Failed
}

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// read makes entries of JSON documents.
func read(t *testing.T, k resource.Kind, docs ...string) []entry {
	t.Helper()
	var list []entry
	for _, d := range docs {
		e, err := entryOf(k, json.RawMessage(d))
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, e.masked())
	}
	return list
}

// TestTables: columns are aligned, and nothing of others reaches a terminal that it would act
// on.
func TestTables(t *testing.T) {
	at := `"changed_at":"2026-03-04T11:58:30Z","changed_by":"ann"`
	for name, c := range map[string]struct {
		kind    resource.Kind
		entries []entry
		want    string
	}{
		"instances": {resource.Instances, read(t, resource.Instances,
			`{"service":"shop","id":"1","address":"10.0.0.1","port":80,"weight":100,"status":"up","holder":"a",`+at+`}`,
			`{"service":"shop","id":"2","address":"::1","port":8080,"weight":0,"status":"draining","zone":"z1","overdue":true}`), `
SERVICE  ID  ADDRESS      STATUS             WEIGHT  ZONE  HOLDER  AGE
shop     1   10.0.0.1:80  up                 100     -     a       90s
shop     2   [::1]:8080   draining, overdue  0       z1    -       -
`},
		"configs": {resource.Configs, read(t, resource.Configs,
			`{"name":"limits","content":"äb","content_type":"text/plain","version":3,`+at+`}`,
			`{"name":"key","content":"hunter2","secret":true,"version":1,"release":{"content":"hunter3","percent":12.5,"labels":{"zone":["b","a"],"tier":["x"]}},`+at+`}`), `
NAME    VERSION  BYTES   TYPE        RELEASE                AGE  BY
limits  3        3       text/plain  -                      90s  ann
key     1        secret  -           12.5% tier=x zone=b|a  90s  ann
`},
		"policies": {resource.Policies, read(t, resource.Policies, `{"name":"a","rules":[{"action":"deny"}],"version":1,"changed_at":"2026-03-01T11:58:30Z","changed_by":"\u001b[31mred\u202e"}`), `
NAME  VERSION  RULES  AGE  BY
a     1        1      3d   <U+001B>[31mred<U+202E>
`},
		"rollout": {rollouts, []entry{
			{kind: rollouts, doc: &resource.Holding{Client: "web-1", Connected: true, State: "refused", Version: 3, Running: 2, Reason: "no number", At: noon.Add(-5 * time.Hour)}},
			{kind: rollouts, doc: &resource.Holding{Client: "web-20", State: "sent", Version: 3, At: noon.Add(-3 * time.Minute)}},
		}, `
CLIENT  STATE    VERSION  RUNNING  CONNECTED  AGE  REASON
web-1   refused  3        2        yes        5h   no number
web-20  sent     3        -        no         3m   -
`},
		"nothing": {resource.Policies, nil, "\nNAME  VERSION  RULES  AGE  BY\n"},
	} {
		var out bytes.Buffer
		p := &printer{&out, asTable, func() time.Time { return noon }}
		if err := p.list(c.kind, c.entries); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got, want := out.String(), c.want[1:]; got != want {
			t.Errorf("%s:\n%s\nwant:\n%s", name, got, want)
		}
	}
}

// TestYAMLIsTheSame whatever texts there are.
func TestYAMLIsTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw, err := json.Marshal(map[string]any{
			"content": rapid.String().Draw(t, "content"), "n": rapid.Int64().Draw(t, "n"), "f": rapid.Float64Range(-1e9, 1e9).Draw(t, "f"),
			"labels": rapid.MapOfN(rapid.StringMatching(`[a-z~/. ]{1,9}`), rapid.String(), 0, 3).Draw(t, "labels"),
			"lines":  rapid.SliceOfN(rapid.SampledFrom([]string{"", " ", "a: b", "- x", "true", "1", "~", "null", "|", "# no", "\t", "a\n\n b\n", "\n", "x\n ", "'", `"`, "é☃😀", "{", "[", "&a", "*a", "!t", "%", "@"}), 0, 5).Draw(t, "lines"),
		})
		if err != nil {
			t.Fatal(err)
		}
		text := toYAML(raw)
		if !same(text, raw) && !json.Valid(text) {
			t.Fatalf("%s\nbecame\n%s", raw, text)
		}
	})
}

// TestFaultsHavePlaces: all that can be known of files without asking.
func TestFaultsHavePlaces(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"no kind":       {"name: a\n", "f:1:1: kind: is missing: policy, config, role or principal"},
		"another kind":  {"kind: deployment\nname: a\n", `f:1:1: kind: "deployment": must be policy, config, role or principal`},
		"an instance":   {"kind: instance\nname: a\n", "f:1:1: kind: instances are not applied, as they end with their lease: dyno ctl register"},
		"a list":        {"- a\n", "f:1:1: want a mapping of fields, such as kind: policy"},
		"no name":       {"kind: policy\nrules: []\n", "f:1:1: name: is missing"},
		"bad name":      {"\nkind: policy\nname: ../a\n", `f:3:1: name: "../a": must have`},
		"twice":         {"kind: policy\nname: a\n---\nkind: policy\nname: a\n", "f:4:1: policy default/a is at f:1:1 already"},
		"a namespace":   {"kind: policy\nname: a\nnamespace: b\n", "f:3:1: namespace: is \"b\", and --namespace says \"default\""},
		"an anchor":     {"kind: policy\nname: &x a\n", "f:2:7: anchors, aliases and tags are not read: write the value out"},
		"not a number":  {"kind: policy\nname: a\nrules: .nan\n", "f:3:8: .nan is not a number that can be kept"},
		"not YAML":      {"kind: [\n", "f:1:"},
		"duplicate":     {"kind: policy\nkind: config\n", "f:2:1: "},
		"no content":    {"items:\n- kind: config\n  name: a\n", "f:2:3: content: is missing"},
		"deep":          {strings.Repeat("[", 100), "nested more than 50 deep"},
		"nothing wrong": {"# a comment\n---\nkind: policy\nname: a\nversion: 3\n---\n", ""},
		"JSON":          {`{"kind":"config","name":"a","content":"\u00e9","release":{"since":1}}`, ""},
	} {
		docs, err := parse("f", []byte(c.text))
		var list []*manifest
		if err == nil {
			list, err = manifests(docs, "default", "default")
		}
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if err == nil && (len(list) != 1 || len(list[0].body) > 2 && name != "JSON" || list[0].body["release"] != nil) {
			t.Errorf("%s: %+v", name, list)
		}
	}
}

// FuzzParse: what is read can be sent, and every place is in the file.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"kind: policy\nname: a\nrules:\n  - action: deny\n", `{"items":[{"kind":"config","name":"c","content":"x"}]}`, "a: |\n  b\n---\n- 1\n- {x: y}\n", "? a\n: b\n", "<<: *a\n", "a: &b 1\nc: *b\n"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		docs, err := parse("f", []byte(text))
		if err != nil {
			return
		}
		lines := strings.Count(text, "\n") + strings.Count(text, "\r") + 1
		for _, d := range docs {
			if _, err := json.Marshal(d.value); err != nil {
				t.Errorf("%#v: %v", d.value, err)
			}
			fields, _ := d.value.(map[string]any)
			for name := range fields {
				var line, column int
				where := d.where("#/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name))
				if _, err := fmt.Sscanf(where, "f:%d:%d", &line, &column); err != nil || line < 1 || line > lines || column < 1 {
					t.Errorf("%s is at %s, of %d lines", name, where, lines)
				}
			}
			if where := d.where("#/no/such/place"); !strings.HasPrefix(where, "f") {
				t.Error(where)
			}
		}
		_, _ = manifests(docs, "default", "") // it must not fail in another way
	})
}

// TestChanges: a watch shows what is different, in the order of names.
func TestChanges(t *testing.T) {
	of := func(docs ...string) map[string]entry {
		m := map[string]entry{}
		for _, e := range read(t, resource.Policies, docs...) {
			m[e.name] = e
		}
		return m
	}
	first := of(`{"name":"b","version":1}`, `{"name":"a","version":1}`, `{"name":"c","version":1}`)
	then := of(`{"name":"b","version":2}`, `{"name":"d","version":1}`, `{"name":"c","version":1}`)
	var out bytes.Buffer
	tl := &tail{printer: &printer{&out, asTable, func() time.Time { return noon }}, kind: resource.Policies}
	for _, list := range [][]entry{nil, changes(nil, first, false), changes(first, then, true)} {
		if err := tl.show(list); err != nil {
			t.Fatal(err)
		}
	}
	want := `EVENT   NAME  VERSION  RULES  AGE  BY
-       a     1        0      -    -
-       b     1        0      -    -
-       c     1        0      -    -
remove  a     1        0      -    -
put     b     2        0      -    -
put     d     1        0      -    -
`
	if out.String() != want {
		t.Errorf("%s\nwant\n%s", &out, want)
	}
}

// TestRolloutsAddUp: each replica knows its own clients.
func TestRolloutsAddUp(t *testing.T) {
	all := &rollout{}
	all.add(resource.Rollout{Ref: resource.Ref{Kind: resource.Configs, Name: "c"}, Version: 3, Clients: 2, Applied: 1, Pending: 1, Versions: map[int64]int{3: 1, 2: 1}})
	all.add(resource.Rollout{Ref: resource.Ref{Kind: resource.Configs, Name: "c"}, Version: 3, Clients: 3, Applied: 2, Refused: 1, Versions: map[int64]int{3: 2}, Holdings: []resource.Holding{{Client: "x"}}})
	if got, want := all.String(), "config/c version 3: 3 of 5 clients run it, 1 refused it, 1 have not said"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if all.done(0) || all.Versions[3] != 3 || len(all.Holdings) != 1 {
		t.Errorf("%+v", all)
	}
}

// TestArguments: what is typed wrongly is answered with what would be right, and nobody is
// asked.
func TestArguments(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"get":                                "want a kind",
		"get pods":                           `unknown kind "pods"`,
		"get policies -o xml":                `--output: unknown form "xml"`,
		"get policies --limit 0":             "--limit: 0",
		"get policy/":                        "a name is missing",
		"get policy/a config/b":              "of two kinds",
		"get services --version 2":           "--version is for",
		"get audit --watch":                  "--watch is not for the audit",
		"get rollout config/c --watch":       "--watch is not for the rollout",
		"get rollout":                        "as KIND/NAME",
		"get rollout service/a":              `unknown kind "service"`,
		"get instances a b c":                "a service and an ID at most",
		"apply":                              "--filename: must be given",
		"apply x":                            "want no arguments",
		"apply -f " + dir + "/none":          "no such file",
		"apply -f " + empty:                  "there is no document",
		"put config a":                       "got 2 arguments",
		"put policy a -":                     `unknown kind "policy"`,
		"delete policies":                    "a name is missing",
		"delete policy/a b":                  "want KIND/NAME",
		"rollback policies a b":              "want one name",
		"rollback policy a":                  "--to: must be given",
		"release c -":                        "--percent or --label",
		"release c - --label x":              "want NAME=VALUE",
		"promote":                            "want a configuration's name",
		"register a":                         "want a service and an ID",
		"register a 1":                       "#/port",
		"rollout status":                     "want a configuration or policy",
		"backup":                             "want a file",
		"get policies --server ftp://x":      "servers",
		"get policies -n A":                  "namespace",
		"get policies --token-file " + empty: "is empty",
		"get policies --token-file none":     "--token-file: open none",
		"get policies --ca " + empty:         "has no certificate in PEM",
		"get policies --cert " + empty:       "go together",
		"get policies --cert x --key x":      "--cert: open x",
		"get policies --timeout -1s":         "request timeout",
	} {
		stdout, _, err := run(t, "", strings.Fields(line)...)
		if err == nil || code(err) != exit.Usage || !strings.Contains(err.Error(), want) || stdout != "" {
			t.Errorf("%s: %v (code %d), want %q; printed %q", line, err, code(err), want, stdout)
		}
	}
}

// A server answers as a control plane would, and notes what it was asked.
func server(t *testing.T, answer http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(answer)
	t.Cleanup(s.Close)
	return s.URL
}

// TestRefusals: their codes, and the faults with their places; a token is shown to the server
// and to nobody else.
func TestRefusals(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("abc\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	address := server(t, func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Authorization"); got != "Bearer abc" {
			t.Errorf("authorization %q", got)
		}
		status, text := 500, `{"title":"something is wrong here","detail":"the log says more"}`
		switch r.URL.Path {
		case "/v1/policies/none":
			status, text = 404, `{"title":"no such resource","detail":"policy default/none"}`
		case "/v1/policies/odd":
			status, text = 200, `<html>`
		case "/v1/configs/c/rollback":
			status, text = 412, `{"title":"a condition does not hold","detail":"x"}`
		case "/v1/policies/role":
			status, text = 403, `{"type":"urn:dyno:control:role","title":"not permitted","detail":"x"}`
		case "/v1/policies/limit":
			status, text = 403, `{"type":"urn:dyno:control:limit","title":"there may be no more","detail":"x"}`
		case "/v1/policies/large":
			status, text = 413, `{"title":"the document is too large","detail":"x"}`
		case "/v1/policies/followed":
			status, text = 421, `{"type":"urn:dyno:control:follower","title":"a follower changes nothing","detail":"x","primary":"http://primary:1"}`
		case "/v1/policies/busy":
			status, text = 503, `{"title":"too many requests wait","detail":"x"}`
		case "/v1/policies/full":
			status, text = 507, `{"title":"the database is full","detail":"x"}`
		case "/v1/policies/disk":
			status, text = 507, `{"type":"urn:dyno:control:disk","title":"the disk is full","detail":"x"}`
		case "/v1/services/a/instances/1":
			status, text = 422, `{"title":"the document is not valid","detail":"2 faults","errors":[{"pointer":"#/a","detail":"one"},{"pointer":"#/b","detail":"two"}]}`
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	})
	for line, c := range map[string]struct {
		code       int
		text, hint string
	}{
		"get policy none":                            {exit.Failed, "no such resource (404): policy default/none", ""},
		"get policy odd":                             {exit.Failed, "the answer is not from a control plane", ""},
		"get policies":                               {exit.Failed, "the log says more", ""},
		"rollback config/c --to 1":                   {exit.Failed, "a condition does not hold", "another client has changed it meanwhile"},
		"get policy role":                            {exit.Failed, "not permitted", "--principals"},
		"get policy limit":                           {exit.Failed, "there may be no more", "--max"},
		"get policy large":                           {exit.Failed, "too large", "--max-config"},
		"get policy busy":                            {exit.Failed, "too many requests wait", "--server"},
		"get policy followed":                        {exit.Failed, "a follower changes nothing (421): x", "--server http://primary:1"},
		"get policy full":                            {exit.Failed, "the database is full", "--quota"},
		"get policy disk":                            {exit.Failed, "the disk is full", "--data"},
		"register a 1 --address 127.0.0.1 --port 80": {exit.Failed, "#/a: one; #/b: two", ""},
	} {
		_, _, err := run(t, "", append(strings.Fields(line), "--server", address, "--token-file", token)...)
		var f *exit.Failure
		hint := ""
		if errors.As(err, &f) {
			hint = f.Hint
		}
		if err == nil || code(err) != c.code || !strings.Contains(err.Error(), c.text) || !strings.Contains(hint, c.hint) || strings.Contains(err.Error(), "abc") {
			t.Errorf("%s: %v (code %d, hint %q), want %+v", line, err, code(err), hint, c)
		}
	}
}

// TestBackupIsWhole, or is none.
func TestBackupIsWhole(t *testing.T) {
	const lines = `{"format":"dyno control backup 1","epoch":"e","revision":1,"at":"2026-01-01T00:00:00Z"}` + "\n" + `{"k":"a","v":"AAAA"}` + "\n"
	file := filepath.Join(t.TempDir(), "backup")
	for _, c := range []struct {
		text string
		left int
	}{{lines, 0}, {lines + fmt.Sprintf("{\"keys\":1,\"sha256\":%q}\n", hexSum(lines)), 1}} {
		address := server(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, c.text) })
		if out, _, err := run(t, "", "backup", file, "--server", address); (err == nil) != (c.left == 1) || c.left == 1 && !strings.HasSuffix(out, ": 1 keys\n") {
			t.Errorf("%q, %v", out, err)
		}
		if left, err := os.ReadDir(filepath.Dir(file)); err != nil || len(left) != c.left {
			t.Errorf("left: %v, %v", left, err)
		}
	}
	if text, err := os.ReadFile(file); err != nil || !strings.HasPrefix(string(text), lines) {
		t.Errorf("%q, %v", text, err)
	}
}

func hexSum(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
