package planfile

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"dyno/internal/fields"
)

// Generated files match the tags.
func TestGeneratedIsFresh(t *testing.T) {
	for path, got := range map[string][]byte{"schema.json": Schema(), "../../docs/reference/experiment.md": reference()} {
		if *update {
			if err := os.WriteFile(path, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is not what the tags say; run go test ./lab/planfile -update", path)
		}
	}
}

func compileSchema(t testing.TB) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// validates holds YAML against the schema, as an editor would.
func validates(t testing.TB, schema *jsonschema.Schema, src []byte) error {
	t.Helper()
	var value any
	if err := yaml.Unmarshal(src, &value); err != nil {
		return err
	}
	return schema.Validate(plainValue(value))
}

// plainValue turns what the YAML package returns into what the validator
// takes.
func plainValue(v any) any {
	switch v := v.(type) {
	case uint64:
		return float64(v)
	case int64:
		return float64(v)
	case []any:
		for i := range v {
			v[i] = plainValue(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = plainValue(v[k])
		}
	}
	return v
}

func TestSchemaAcceptsWhatIsGood(t *testing.T) {
	schema := compileSchema(t)
	var files []string
	for _, root := range []string{"testdata/good", "../../experiments"} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && strings.HasSuffix(path, ".yaml") {
				files = append(files, path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(files) < 3 {
		t.Fatalf("only %d files", len(files))
	}
	for _, path := range files {
		src, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := validates(t, schema, src); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		if _, err := ReadFile(path, Options{}); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// One change after another is made to a good file, which the schema and the reader must refuse.
func TestReaderRefusesWhatTheSchemaRefuses(t *testing.T) {
	schema := compileSchema(t)
	const good = "name: x\ntarget: {protocol: tcp, start: [x, '{{port}}']}\nload: {closed: {connections: 1}}\n"
	if err := validates(t, schema, []byte(good)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ from, to string }{
		{"name: x", "name: 5"},
		{"name: x", "name: a b"},
		{"name: x\n", ""},
		{"name: x", "name: ''"},
		{"name: x", "name: x\nextra: 1"},
		{"name: x", "name: x\nquestion:"},
		{"name: x", "name: x\nladder: []"},
		{"protocol: tcp", "protocol: udp"},
		{"protocol: tcp", "protocol: tcp, cpus: 1024"},
		{"protocol: tcp", "protocol: tcp, cpus: a"},
		{"protocol: tcp", "protocol: tcp, env: {a-b: 1}"},
		{"protocol: tcp", "protocol: tcp, env: {a: [1]}"},
		{"protocol: tcp", "protocol: tcp, ready: {tcp: 1}"},
		{"protocol: tcp", "protocol: tcp, ready_timeout: 7200"},
		{"protocol: tcp", "protocol: tcp, ready_timeout: 5d"},
		{"[x, '{{port}}']", "[]"},
		{"[x, '{{port}}']", "x"},
		{"[x, '{{port}}']", "[{x: 1}]"},
		{"connections: 1", "connections: 0"},
		{"connections: 1", "connections: 1.5"},
		{"connections: 1", "connections: '1'"},
		{"connections: 1", "connections: 1000001"},
		{"closed: {connections: 1}", "closed: {connections: 1, think: fast}"},
		{"closed: {connections: 1}", "closed: {connections: 1, think: {uniform: {from: 1}}}"},
		{"closed: {connections: 1}", "closed: {connections: 1}, payload: 1 kilobyte"},
		{"closed: {connections: 1}", "closed: {connections: 1}, warmup: later"},
		{"closed: {connections: 1}", "open: {rate: 5/d}"},
		{"closed: {connections: 1}", "open: {rate: 100000000}"},
		{"closed: {connections: 1}", "stages: []"},
		{"closed: {connections: 1}", "stages: [{rate: 5}]"},
		{"name: x", "name: x\ndesign: {rounds: '{{r}}'}"},
		{"name: x", "name: x\ndesign: {seed: -1}"},
		{"name: x", "name: x\ndesign: {stop: never}"},
		{"name: x", "name: x\ndesign: {margin: 0.6}"},
		{"name: x", "name: x\ndesign: {margin: 2 %}"},
		{"name: x", "name: x\ndesign: {control: [a]}"},
		{"name: x", "name: x\ncompare: {base: a, variants: {}}"},
		{"name: x", "name: x\ncompare: {base: a, variants: {a: {}, 'b c': {}}}"},
		{"name: x", "name: x\nsweep: {a-b: [1]}"},
		{"name: x", "name: x\nsweep: {a: 1}"},
		{"name: x", "name: x\nthresholds: [5]"},
		{"name: x", "name: x\nclaims: [{id: a}]"},
		{"name: x", "name: x\nshort: {warmup: auto}"},
		{"name: x", "name: x\nladder: {steps: {a: {}}, leave_one_out: maybe}"},
		{"name: x", "name: x\ncapacity: {from: 1, to: 2, tolerate: 1}"},
		{"name: x", "name: x\nsoak: 30m"},
	} {
		src := strings.Replace(good, c.from, c.to, 1)
		if src == good {
			t.Fatalf("%q changes nothing", c.to)
		}
		if validates(t, schema, []byte(src)) == nil {
			t.Errorf("%q: the schema accepts it", c.to)
		}
		if _, err := Parse("x.yaml", []byte(src), Options{}); err == nil {
			t.Errorf("%q: the reader accepts it", c.to)
		}
	}
}

func seeds(f *testing.F) {
	for _, pattern := range []string{"testdata/good/*.yaml", "testdata/bad/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			f.Fatal(err)
		}
		for _, path := range files {
			src, err := os.ReadFile(path)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(src)
		}
	}
}

// For any bytes: no panic; every fault has a place, a problem and its file; the same bytes give the
// same answer; accepted plans are valid, and the schema accepts them.
func FuzzParse(f *testing.F) {
	seeds(f)
	schema := compileSchema(f)
	f.Fuzz(func(t *testing.T, src []byte) {
		e, err := Parse("fuzz.yaml", src, Options{})
		again, errAgain := Parse("fuzz.yaml", src, Options{})
		if diff := cmp.Diff(e, again); diff != "" {
			t.Fatalf("not deterministic: %s", diff)
		}
		if err == nil {
			if err := e.Validate(); err != nil {
				t.Fatalf("accepted, yet not valid: %v", err)
			}
			if err := validates(t, schema, src); err != nil {
				t.Fatalf("the reader accepts what the schema refuses: %v", err)
			}
			return
		}
		if err.Error() != errAgain.Error() {
			t.Fatalf("not deterministic:\n%v\n%v", err, errAgain)
		}
		var faults *fields.Faults
		if !errors.As(err, &faults) || len(faults.Faults) == 0 {
			t.Fatalf("%T: %v", err, err)
		}
		// A carriage return ends a line, too (YAML 1.2, section 5.4).
		lines := bytes.Count(src, []byte("\n")) + bytes.Count(src, []byte("\r")) + 2
		for _, x := range faults.Faults {
			if x.File == "" || x.Line < 1 || x.Line > lines || x.Column < 1 || x.Problem == "" {
				t.Fatalf("without a place: %#v", x)
			}
		}
	})
}
