package bot

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dyno/services/bot/intent"
)

// TestDocument: the reference has a row for each key of the file of rules, and for each
// metric, once, and none for others.
func TestDocument(t *testing.T) {
	document, err := os.ReadFile("../../docs/bot-configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	var source []byte
	for _, path := range []string{"metrics.go", "metrics/metrics.go"} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		source = append(source, text...)
	}
	// By the source: vectors without values are not gathered, and some metrics are there only with what they count.
	var metrics []string
	for _, m := range regexp.MustCompile(`(?:\("|Name: "bot_)([a-z0-9_]+)", (?:Help: )?"[A-Z0-9]`).FindAllStringSubmatch(string(source), -1) {
		if name := "bot_" + m[1]; !slices.Contains(metrics, name) { // one of several results is there for each
			metrics = append(metrics, name)
		}
	}
	for _, c := range []struct {
		head string
		want []string
	}{
		{"| key | default | what |", keysOf(reflect.TypeFor[intent.Rules](), "")},
		{"| metric | type | labels | what |", metrics},
	} {
		if got := rowsOf(string(document), c.head); len(c.want) == 0 || !cmp.Equal(slices.Sorted(slices.Values(c.want)), got) {
			t.Errorf("%s\n-in the code +in the document:\n%s", c.head, cmp.Diff(slices.Sorted(slices.Values(c.want)), got))
		}
	}
}

// keysOf are the YAML keys of a struct, and of those within it: "keys", "keys[].id".
func keysOf(t reflect.Type, within string) (keys []string) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, option, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		switch {
		case option == "inline":
			keys = append(keys, keysOf(f.Type, within)...)
			continue
		case name == "-" || !f.IsExported():
			continue
		case name == "":
			name = strings.ToLower(f.Name) // as the library has it
		}
		name = within + name
		keys = append(keys, name)
		of := f.Type
		if of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		if of.Kind() == reflect.Slice {
			of, name = of.Elem(), name+"[]"
		}
		if of.Kind() == reflect.Struct {
			keys = append(keys, keysOf(of, name+".")...)
		}
	}
	return keys
}

// rowsOf are the names in backquotes that rows begin with, of the tables of a head, in order.
func rowsOf(document, head string) (names []string) {
	within := false
	for line := range strings.Lines(document) {
		switch line = strings.TrimSpace(line); {
		case line == head:
			within = true
		case !strings.HasPrefix(line, "|"):
			within = false
		case within && strings.HasPrefix(line, "| `"):
			name, _, _ := strings.Cut(strings.TrimPrefix(line, "| `"), "`")
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
