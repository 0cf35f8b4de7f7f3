package settings

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"dyno/internal/fields"
)

// A server is a configuration with a field of each kind.
type server struct {
	Listen  string        `yaml:"listen" doc:"where clients connect"`
	Timeout time.Duration `yaml:"timeout" range:"1ms..1h" default:"5s" doc:"of a request"`
	Size    int64         `yaml:"size" kind:"size" range:"1..1GiB" default:"4KiB" doc:"of a request"`
	Mode    mode          `yaml:"mode" live:"true" oneof:"fast safe" default:"safe" doc:"how it works"`
	Remote  bool          `yaml:"remote" flag:"allow-remote" doc:"listen anywhere"`
	Page    bool          `yaml:"page" default:"true" doc:"serve a page"`
	Delay   *bool         `yaml:"delay" otherwise:"as the kernel has it" doc:"TCP_NODELAY"`
	Names   []string      `yaml:"names" most:"3" doc:"names"`
	Peers   peers         `yaml:"peers" names:"any" doc:"addresses by name"`
	Rules   string        `yaml:"rules" kind:"path" doc:"the rules"`
	Secret  secret        `yaml:"secret_file" doc:"the file of a secret"`
	Limit   limits        `yaml:"limit" live:"true" doc:"bounds"`
	Keys    []entry       `yaml:"keys" doc:"who may come"`
	Inner   inner         `yaml:",inline"`
	Hidden  string
}

type (
	mode   string
	peers  map[string]string
	secret struct{ text string }
	limits struct {
		Rate float64 `yaml:"rate" range:"0..1000" default:"10" doc:"requests a second"`
	}
	entry struct {
		ID     string `yaml:"id,required" doc:"its name"`
		Weight int    `yaml:"weight" range:"1..9" default:"1" doc:"its share"`
	}
	inner struct {
		Depth int `yaml:"depth" range:"0..8" default:"2" doc:"how deep"`
	}
)

func (s *secret) SetText(text, folder string) error {
	content, err := os.ReadFile(filepath.Join(folder, text))
	if err != nil {
		return errors.New("there is no such file; the path of a secret")
	}
	s.text = string(content)
	return nil
}

// read reads what a file and flags say; a file of no text is none.
func read(t *testing.T, file string, args ...string) (server, *Settings, error) {
	t.Helper()
	t.Chdir(t.TempDir())
	if err := os.MkdirAll("etc", 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"etc/server.yaml": file, "etc/token": "from the file's folder", "token": "from here"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := fields.Default[server]()
	s := New(&c)
	f := pflag.NewFlagSet("server", pflag.ContinueOnError)
	s.AddFlags(f)
	if file != "" {
		args = append(args, "--config", "etc/server.yaml")
	}
	if err := f.Parse(args); err != nil {
		t.Fatal(err)
	}
	s.Read()
	err := s.Validate(func(r *fields.Report) {
		r.Check(c.Listen != "", "listen", "is missing", "such as --listen 127.0.0.1:1")
		for i, k := range c.Keys {
			r.At("keys[%d]", i).Check(k.ID != "root", "id", "is taken", "another name")
		}
	})
	return c, s, err
}

func TestRead(t *testing.T) {
	defaults := fields.Default[server]()
	if defaults.Timeout != 5*time.Second || defaults.Limit.Rate != 10 || defaults.Inner.Depth != 2 || !defaults.Page || defaults.Delay != nil {
		t.Errorf("defaults: %+v", defaults)
	}
	const file = `
listen: 127.0.0.1:1
timeout: 2s
size: 1MiB
names: [a, b]
rules: rules.yaml
secret_file: token
limit: {rate: 5}
keys:
  - id: shop
  - {id: staff, weight: 3}
depth: 3
`
	got, s, err := read(t, file, "--timeout", "3s", "--mode=fast", "--allow-remote", "--page=false", "--delay", "--peers", "a=1,b=2", "--limit-rate", "7", "--names", "c,d", "--names", "e")
	if err != nil {
		t.Fatal(err)
	}
	yes := true
	want := server{
		Listen: "127.0.0.1:1", Timeout: 3 * time.Second, Size: 1 << 20, Mode: "fast", Remote: true, Delay: &yes, Names: []string{"c", "d", "e"},
		Peers: peers{"a": "1", "b": "2"}, Rules: "etc/rules.yaml", Secret: secret{"from the file's folder"}, Limit: limits{7},
		Keys: []entry{{"shop", 1}, {"staff", 3}}, Inner: inner{3},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(secret{})); diff != "" {
		t.Error(diff)
	}
	for field, given := range map[string]bool{"timeout": true, "depth": true, "limit.rate": true, "mode": true, "delay": true, "hidden": false} {
		if s.Given(field) != given {
			t.Errorf("%s is given: %v", field, !given)
		}
	}
	if got, _, err := read(t, "", "--listen=x", "--rules", "rules.yaml", "--secret-file", "token"); err != nil || got.Rules != "rules.yaml" || got.Secret.text != "from here" {
		t.Errorf("paths of flags: %+v, %v", got, err)
	}
}

// Faults of a file, of flags and of checks are reported together, each once and where it is.
func TestFaults(t *testing.T) {
	for _, c := range []struct {
		file string
		args []string
		want string
	}{
		{"", nil, "--listen: is missing; such as --listen 127.0.0.1:1"},
		{"page: true\n", nil, "--listen: is missing; such as --listen 127.0.0.1:1"},
		{"", []string{"--listen=x", "--timeout=soon", "--size=0", "--mode=quick", "--names=a,b,c,d", "--peers=a", "--depth=9", "--secret-file=none"}, `
--timeout: "soon" is not a duration; such as 5s or 250ms; a bare number is seconds
--size: 0B is too little; from 1B to 1GiB
--mode: "quick" is not possible; one of fast, safe
--peers: "a" has no =; want NAME=VALUE,NAME=VALUE
--depth: 9 is too much; from 0 to 8
--secret-file: there is no such file; the path of a secret
--names: 4 entries are too many; at most 3`},
		{"listen: x\ntimout: 1s\nlimit: {rate: 5000}\nkeys:\n  - weight: 1\n  - {id: root, weight: 0}\nsecret_file: none\n", []string{"--depth=-1"}, `
--depth: -1 is too little; from 0 to 8
etc/server.yaml:2:1: timout: unknown field; did you mean "timeout"?
etc/server.yaml:3:15: limit.rate: 5000 is too much; from 0 to 1000
etc/server.yaml:5:5: keys[0].id: is missing; want text
etc/server.yaml:6:10: keys[1].id: is taken; another name
etc/server.yaml:6:24: keys[1].weight: 0 is too little; from 1 to 9
etc/server.yaml:7:14: secret_file: there is no such file; the path of a secret`},
		{"listen: x\ntimeout: 0s\n", []string{"--timeout=1s"}, "etc/server.yaml:2:10: timeout: 0s is too little; from 1ms to 1h"},
		{"listen: [\n", nil, "etc/server.yaml:1:9: "},
	} {
		_, _, err := read(t, c.file, c.args...)
		got, want := "", strings.TrimSpace(c.want)
		if err != nil {
			got = err.Error()
		}
		if strings.HasSuffix(c.want, ": ") {
			got, want = got[:min(len(got), len(c.want))], c.want
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q %v: %s", c.file, c.args, diff)
		}
	}
	c := fields.Default[server]()
	s := New(&c)
	s.File = "none.yaml"
	s.Read()
	if err := s.Validate(func(*fields.Report) {}); err == nil || !strings.HasPrefix(err.Error(), "--config: open none.yaml: no such file") {
		t.Errorf("no file: %v", err)
	}
}

// Fields that change without a restart are not among those that need one.
func TestFixed(t *testing.T) {
	a := fields.Default[server]()
	for name, c := range map[string]struct {
		change func(*server)
		want   string
	}{
		"nothing":   {func(*server) {}, ""},
		"live":      {func(s *server) { s.Mode, s.Limit.Rate = "fast", 3 }, ""},
		"no field":  {func(s *server) { s.Hidden = "x" }, ""},
		"text":      {func(s *server) { s.Mode, s.Listen = "fast", "x" }, "listen"},
		"of others": {func(s *server) { s.Inner.Depth = 3 }, "depth"},
		"several":   {func(s *server) { s.Names, s.Peers, s.Secret = []string{"a"}, peers{"a": "b"}, secret{"x"} }, "names peers secret_file"},
	} {
		b := fields.Default[server]()
		if c.change(&b); strings.Join(Fixed(a, b), " ") != c.want {
			t.Errorf("%s: %v, want %q", name, Fixed(a, b), c.want)
		}
	}
}

func TestTable(t *testing.T) {
	page := string(Table(server{}))
	for _, want := range []string{
		"| field | value |",
		"| `timeout` | duration, 1ms to 1h | 5s | of a request | `--timeout` |",
		"| `remote` | true or false | false | listen anywhere | `--allow-remote` |",
		"| `mode` | fast, safe | safe | how it works; changes without a restart | `--mode` |",
		"| `limit.rate` | number, 0 to 1000 | 10 | requests a second | `--limit-rate` |",
		"| `keys[].id` | text | required | its name |  |",
		"| `depth` |",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("no %s in\n%s", want, page)
		}
	}
}
