package upstream

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"dyno/services/bot/dialect"
	"dyno/services/bot/dialect/embedding"
)

var update = flag.Bool("update", false, "write the manual's table of dialects")

// TestManual: the manual's table says which dialect has which feature, and which ones may be dropped.
func TestManual(t *testing.T) {
	const path, begin, end = "../../../docs/services/bot-dialects.md", "<!-- features -->\n", "<!-- end -->\n"
	order := []Dialect{OpenAI, Azure, VLLM, Anthropic, Gemini, Ollama}
	if len(order) != len(vendors) {
		t.Fatal("a dialect is missing")
	}
	var table strings.Builder
	table.WriteString("| feature | what it is |")
	for _, d := range order {
		fmt.Fprintf(&table, " %s |", d)
	}
	table.WriteString("\n|---|---|" + strings.Repeat("---|", len(order)) + "\n")
	for _, f := range dialect.Features() {
		fmt.Fprintf(&table, "| `%s` | %s |", f, f.Text())
		for _, d := range order {
			switch {
			case vendors[d].form(Server{}, Deployment{}).Says(f):
				table.WriteString(" yes |")
			case f.Droppable():
				table.WriteString(" drop |")
			default:
				table.WriteString(" no |")
			}
		}
		table.WriteString("\n")
	}
	table.WriteString("| | [embeddings](bot-api.md#embeddings) |")
	for _, d := range order {
		table.WriteString(map[bool]string{true: " yes |", false: " no |"}[vendors[d].embeds != embedding.None])
	}
	table.WriteString("\n")
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(page), begin)
	_, after, complete := strings.Cut(rest, end)
	if !found || !complete {
		t.Fatalf("%s has no place for the table", path)
	}
	want := before + begin + "\n" + table.String() + "\n" + end + after
	if *update {
		err = os.WriteFile(path, []byte(want), 0o644) //nolint:gosec // a page for everybody
	} else if string(page) != want {
		err = fmt.Errorf("%s is stale: go test ./services/bot/upstream -run TestManual -update", path)
	}
	if err != nil {
		t.Error(err)
	}
}
