package profile

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	pprof "github.com/google/pprof/profile"

	"dyno/internal/leak"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func TestMain(m *testing.M) { leak.Main(m) }

// recorded reads one of the profiles that testdata/record.go took.
func recorded(t *testing.T, name string) *pprof.Profile {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name+".pb.gz"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := pprof.ParseData(b)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// golden holds text to a file.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is no longer right; with -update it is rewritten.\ngot:\n%s\nwant:\n%s", file, got, want)
	}
}

// made is a profile of one value, from stacks with the leaf first. A function is in
// the kernel if its name begins with "k:", and in a library as "libc.so.6:read".
func made(value string, stacks map[string]int64) *pprof.Profile {
	p := &pprof.Profile{SampleType: []*pprof.ValueType{{Type: value, Unit: "nanoseconds"}}, PeriodType: &pprof.ValueType{Type: value, Unit: "nanoseconds"}}
	mappings, locations := map[string]*pprof.Mapping{}, map[string]*pprof.Location{}
	location := func(name string) *pprof.Location {
		if l := locations[name]; l != nil {
			return l
		}
		file, function := "/srv/program", name
		if i := bytes.IndexByte([]byte(name), ':'); i > 0 && name[i+1] != ':' && (i == 0 || name[i-1] != ':') {
			file, function = name[:i], name[i+1:]
			if file == "k" {
				file = Kernel
			}
		}
		m := mappings[file]
		if m == nil {
			m = &pprof.Mapping{ID: uint64(len(mappings) + 1), Start: uint64(len(mappings)) << 32, Limit: uint64(len(mappings)+1) << 32, File: file}
			mappings[file] = m
			p.Mapping = append(p.Mapping, m)
		}
		f := &pprof.Function{ID: uint64(len(locations) + 1), Name: function}
		p.Function = append(p.Function, f)
		l := &pprof.Location{ID: f.ID, Mapping: m, Address: m.Start + f.ID, Line: []pprof.Line{{Function: f, Line: 1}}}
		locations[name] = l
		p.Location = append(p.Location, l)
		return l
	}
	for text, v := range stacks {
		s := &pprof.Sample{Value: []int64{v}}
		for _, name := range bytes.Fields([]byte(text)) {
			s.Location = append(s.Location, location(string(name)))
		}
		p.Sample = append(p.Sample, s)
	}
	if err := p.CheckValid(); err != nil {
		panic(err)
	}
	return p
}
