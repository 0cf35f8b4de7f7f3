package cli

import (
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"dyno/cli/help"
	"dyno/internal/exit"
	"dyno/judge/verdict/checks"
	"dyno/judge/verdict/expr"
	"dyno/load/scenario/template"
	"dyno/results/rundir"
)

// pageOf returns what dyno help prints on a topic.
func pageOf(t *testing.T, name string) string {
	t.Helper()
	var out strings.Builder
	if code := Main(t.Context(), []string{"help", name}, nil, &out, &out); code != exit.Done {
		t.Fatalf("dyno help %s: exit code %d", name, code)
	}
	return out.String()
}

// Each topic has everything that is declared, with words on it, in lines that fit.
func TestTopics(t *testing.T) {
	type entry struct{ name, about string }
	declared := map[string][]entry{"exit-codes": nil}
	for _, c := range rundir.Clocks() {
		declared["metrics"] = append(declared["metrics"], entry{c.Tag, c.About})
	}
	for _, m := range rundir.Metrics() {
		if _, isTime := rundir.ClockOf(m.Name); !isTime {
			declared["metrics"] = append(declared["metrics"], entry{m.Name, m.About})
		}
	}
	for _, f := range expr.Functions() {
		declared["expressions"] = append(declared["expressions"], entry{f.Usage, f.About})
	}
	for _, f := range template.Functions() {
		declared["templates"] = append(declared["templates"], entry{f.Name + "(" + f.Arguments + ")", f.Meaning})
	}
	for _, c := range checks.All() {
		declared["trust"] = append(declared["trust"], entry{c.Kind, c.Means})
	}
	for _, c := range exit.Codes() {
		declared["exit-codes"] = append(declared["exit-codes"], entry{strconv.Itoa(c.Code), c.Means})
	}
	for _, topic := range help.Topics() {
		page := pageOf(t, topic.Name())
		for line := range strings.Lines(page) {
			if utf8.RuneCountInString(strings.TrimSuffix(line, "\n")) > help.Width {
				t.Errorf("%s: more than %d columns: %s", topic.Name(), help.Width, line)
			}
		}
		if len(declared[topic.Name()]) == 0 {
			t.Errorf("%s: nothing is declared", topic.Name())
		}
		for _, e := range declared[topic.Name()] {
			if !strings.Contains(page, "\n  "+e.name+" ") && !strings.HasPrefix(page, "  "+e.name+" ") || e.about == "" {
				t.Errorf("%s: no line on %s, or no words on it (%q)", topic.Name(), e.name, e.about)
			}
		}
	}
}
