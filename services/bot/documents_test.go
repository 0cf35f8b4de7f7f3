package bot

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestDocument: the reference has one row for each key of the file of rules, and for each metric, and no others.
func TestDocument(t *testing.T) {
	read := func(path string) string {
		t.Helper()
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	document := read("../../docs/services/bot-configuration.md")
	var keys, metrics []string
	for _, m := range regexp.MustCompile("`yaml:\"([a-z]+)\"`").FindAllStringSubmatch(read("intent/intent.go"), -1) {
		keys = append(keys, m[1])
	}
	// By the source: vectors without values are not gathered, and some metrics are there only with what they count.
	for _, m := range regexp.MustCompile(`(?:\("|Name: "(?:bot_)?)([a-z0-9_]+)", (?:Help: )?"[A-Z0-9]`).FindAllStringSubmatch(read("metrics.go")+read("metrics/metrics.go"), -1) {
		name := m[1]
		if !strings.HasPrefix(name, "gen_ai_") { // by OpenTelemetry's conventions
			name = "bot_" + name
		}
		if !slices.Contains(metrics, name) { // one of several results is there for each
			metrics = append(metrics, name)
		}
	}
	for head, want := range map[string][]string{
		"| key | default | what |":          keys,
		"| metric | type | labels | what |": metrics,
	} {
		slices.Sort(want)
		if got := rowsOf(document, head); len(want) == 0 || !cmp.Equal(want, got) {
			t.Errorf("%s\n-in the code +in the document:\n%s", head, cmp.Diff(want, got))
		}
	}
}

// rowsOf are the names in backquotes that rows begin with, of the tables of a head, in order: of "intents[].name" the
// last one.
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
			names = append(names, name[strings.LastIndexByte(name, '.')+1:])
		}
	}
	slices.Sort(names)
	return names
}
