package imports

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"dyno/services/control/resource"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// shown is what an import has, a line for each entry.
func shown(t testing.TB, i *Import) string {
	t.Helper()
	var b strings.Builder
	for _, e := range i.Entries {
		if e.Why != "" {
			why, _, _ := strings.Cut(e.Why, ": must") // what resources say may change
			fmt.Fprintf(&b, "%s: left out: %s\n", e.Where, why)
			continue
		}
		text, err := json.Marshal(e.Resource)
		if err != nil {
			t.Fatal(err)
		}
		made := `,"version":0,"changed_at":"0001-01-01T00:00:00Z","changed_by":""`
		fmt.Fprintf(&b, "%s: %s %s\n", e.Where, e.Ref(), strings.Replace(string(text), made, "", 1))
	}
	return b.String()
}

// golden compares text with a file.
func golden(t *testing.T, file, text string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil { //nolint:gosec // as every file of the repository
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if text != string(want) {
		t.Errorf("%s: got\n%s\nwant\n%s", file, text, want)
	}
}

func TestFiles(t *testing.T) {
	for _, tool := range []string{"consul", "nacos"} {
		files, err := filepath.Glob("testdata/" + tool + "/*.json")
		if err != nil || len(files) == 0 {
			t.Fatalf("%q, %v", files, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			i := &Import{Namespace: "default", TTL: 60}
			read := map[string]func([]byte) error{"consul": i.Consul, "nacos": i.Nacos}[tool]
			if err := read(text); err != nil {
				t.Errorf("%s: %v", file, err)
			}
			i.End()
			golden(t, strings.TrimSuffix(file, "json")+"golden", shown(t, i))
		}
	}
}

// packed makes an archive of pairs of names and contents.
func packed(t testing.TB, pairs ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for n := 0; n < len(pairs); n += 2 {
		w, err := z.Create(pairs[n])
		if err == nil {
			_, err = w.Write([]byte(pairs[n+1]))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestArchives(t *testing.T) {
	for name, pairs := range map[string][]string{
		"new": {
			"DEFAULT_GROUP/shop.yaml", "limit: 5\r\n", "DEFAULT_GROUP/cipher-db.properties", "password=x", "DEFAULT_GROUP/plain", "", "DEFAULT_GROUP/", "", "nowhere", "x",
			".metadata.yml", "metadata:\n- appName: orders\n  dataId: shop.yaml\n  desc: 'limits of it: five'\n  group: DEFAULT_GROUP\n  type: yaml\n- dataId: cipher-db.properties\n  group: DEFAULT_GROUP\n  type: properties\n",
		},
		"old": {"DEFAULT_GROUP/a.b.json", "{}", "DEFAULT_GROUP/plain", "x", ".meta.yml", "DEFAULT_GROUP.a.b~json.app=orders\r\nDEFAULT_GROUP.plain.app=other\r\n"},
	} {
		i := &Import{Namespace: "default"}
		if err := i.Nacos(packed(t, pairs...)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		golden(t, "testdata/nacos/"+name+".golden", shown(t, i))
	}
	// A group precedes the name, and a content may be no text.
	for _, want := range []resource.Config{{Namespace: "default", Name: "A/größe", Content: "x"}, {Namespace: "default", Name: "c", Binary: []byte("\xff")}} {
		i := &Import{Namespace: "default"}
		if err := i.Nacos(packed(t, map[bool]string{true: want.Name, false: "DEFAULT_GROUP/" + want.Name}[strings.Contains(want.Name, "/")], want.Data())); err != nil || len(i.Entries) != 1 {
			t.Fatalf("%+v, %v", i.Entries, err)
		}
		e := i.Entries[0]
		if c, ok := e.Resource.(*resource.Config); e.Why != "" || !ok || c.Name != want.Name || c.Content != want.Content || c.Data() != want.Data() {
			t.Errorf("%+v", e)
		}
	}
}

// TestRefused: files of other forms, and archives that are larger than they look.
func TestRefused(t *testing.T) {
	zeros := strings.Repeat("\x00", maxEntry)
	var many []string
	for n := range MaxTotal/maxEntry + 1 {
		many = append(many, fmt.Sprint("A/", n), zeros)
	}
	for name, c := range map[string]struct {
		tool, text, want string
	}{
		"nothing":         {"consul", "", "entry 1: is of no known form"},
		"no JSON":         {"consul", "[{]", "invalid character"},
		"HCL":             {"consul", `service { name = "a" }`, "entry 1: is of no known form"},
		"names only":      {"consul", `{"web": ["v1"]}`, "entry 1: is of no known form"},
		"a list of texts": {"consul", `["app/"]`, "entry 1: is of no known form"},
		"no service":      {"consul", `{"a": {"ID": "a"}}`, "entry 1: is of no known form"},
		"not base64":      {"consul", `[{"key":"a","value":"eA=="},{"key":"a","value":"!"}]`, "entry 2: "},
		"no ZIP":          {"nacos", "PK\x03\x04x", "not a valid zip file"},
		"no instances":    {"nacos", `{"code":0,"data":"ok"}`, "is of no known form"},
		"a list":          {"nacos", `{"count":1,"doms":["a"]}`, "is of no known form"},
		"a refusal":       {"nacos", `{"code":403,"message":"access denied","data":null}`, "is a refusal: 403 access denied"},
		"no metadata":     {"nacos", string(packed(t, ".metadata.yml", "metadata: [")), ".metadata.yml: "},
		"deep metadata":   {"nacos", string(packed(t, ".metadata.yml", strings.Repeat("[", 1000))), "nested more than"},
		"a large entry":   {"nacos", string(packed(t, "A/b", zeros+"x")), "A/b: has more than 4194304 bytes unpacked"},
		"large together":  {"nacos", string(packed(t, many...)), "has more than 67108864 bytes unpacked"},
	} {
		i := &Import{Namespace: "default"}
		err := map[string]func([]byte) error{"consul": i.Consul, "nacos": i.Nacos}[c.tool]([]byte(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// TestSplitsOfSplits: a policy of many splits of each other is refused, and soon.
func TestSplitsOfSplits(t *testing.T) {
	var entries []string
	for n := range 30 {
		var splits []string
		for k := range 30 {
			splits = append(splits, fmt.Sprintf(`{"Weight":3,"Service":"s%d"}`, k))
		}
		entries = append(entries, fmt.Sprintf(`{"Kind":"service-splitter","Name":"s%d","Splits":[%s]}`, n, strings.Join(splits, ",")))
	}
	i := &Import{Namespace: "default"}
	if err := i.Consul([]byte("[" + strings.Join(entries, ",") + "]")); err != nil {
		t.Fatal(err)
	}
	i.End()
	for _, e := range i.Entries {
		if !strings.Contains(e.Why, "100 at most") {
			t.Errorf("%+v", e)
		}
	}
	if len(i.Entries) != 30 {
		t.Errorf("%d entries", len(i.Entries))
	}
}

func fuzz(f *testing.F, read func(*Import, []byte) error) {
	f.Fuzz(func(t *testing.T, data []byte) {
		i := &Import{Namespace: "default", TTL: 60}
		if read(i, data) != nil {
			return
		}
		i.End()
		for _, e := range i.Entries {
			if (e.Why == "") != (e.Resource != nil) {
				t.Errorf("%+v", e)
			}
			if e.Why == "" && !utf8.ValidString(e.Ref().Name) {
				t.Errorf("%q", e.Ref().Name)
			}
		}
		shown(t, i)
	})
}

func FuzzConsul(f *testing.F) {
	files, err := filepath.Glob("testdata/consul/*.json")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	fuzz(f, (*Import).Consul)
}

func FuzzNacos(f *testing.F) {
	f.Add(packed(f, "DEFAULT_GROUP/a.json", "{}", ".metadata.yml", "metadata:\n- dataId: a.json\n  group: DEFAULT_GROUP\n", ".meta.yml", "DEFAULT_GROUP.a~json.app=x"))
	f.Add([]byte(`{"code":0,"data":{"name":"A@@b","hosts":[{"ip":"10.0.0.1","port":1,"weight":1e300}]}}`))
	f.Add([]byte(`{"hosts":[]}`))
	fuzz(f, (*Import).Nacos)
}
