package differential

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/rogpeppe/go-internal/txtar"

	"dyno/cli/imports"
	"dyno/cli/imports/draft"
	"dyno/lab/generator"
	"dyno/lab/plan"
	"dyno/lab/planfile"
	"dyno/load/scenario"
)

// k6Runs is k6 with a script's own options.
var k6Runs = tool{
	format:  "k6",
	program: "k6",
	command: func(file string) []string { return []string{"k6", "run", "--quiet", "--no-usage-report", file} },
	own:     k6.own,
	answer:  answerToTable,
	general: k6.general,
}

// answerToTable answers the requests of the table's scripts.
func answerToTable(_, target string) (status int, header, body string) {
	switch target {
	case "/html":
		return 200, "Content-Type: text/html\r\n", `<html><body><form action="/login" method="post"><input type="hidden" name="csrf" value="c5rf"><input name="user" value=""></form><a class="next" href="/next">on</a></body></html>`
	case "/cookie":
		return 200, "Set-Cookie: sid=s1d; Path=/\r\n", defaultAnswer
	case "/moved":
		return 302, "Location: /target\r\n", ""
	case "/missing":
		return 404, "", defaultAnswer
	}
	return 200, "", defaultAnswer
}

// A row is a part of k6's API, a script that uses it, and what is expected of its import.
type row struct {
	area, what, outcome, file string
	within                    int  // by how many the requests of each kind may differ from k6's
	fromWeb                   bool // it imports a library that k6 has from the web
}

// The outcomes of a row.
const (
	carried = "carried" // nothing about the script is listed, and the requests are those of k6
	lost    = "lost"    // the list names it by line
	general = "general" // the list names it for the whole script
	refused = "refused" // there is no experiment
)

var rowHead = regexp.MustCompile(`^// ([^:]+): (.*) => (\w+)( ±1)?\n`)

// table writes the files of the table to a folder, and returns its rows.
func table(t *testing.T, dir string) (rows []row) {
	t.Helper()
	archive, err := txtar.ParseFile(filepath.Join("testdata", "k6-table.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range archive.Files {
		if err := os.WriteFile(filepath.Join(dir, f.Name), f.Data, 0o600); err != nil {
			t.Fatal(err)
		}
		if m := rowHead.FindSubmatch(f.Data); m != nil {
			rows = append(rows, row{string(m[1]), string(m[2]), string(m[3]), f.Name, min(len(m[4]), 1), bytes.Contains(f.Data, []byte("from 'https://"))})
		}
	}
	return rows
}

// random are parts of requests that are drawn, or depend on the time: rows that have them name their place by r?.
var random = regexp.MustCompile(`(?m)^(GET /r\?).*$`)

// mostAttempts is how often a row is carried out by both: a machine that is busy may hold up users of either.
const mostAttempts = 3

// TestK6Table holds each row of k6's API against its expectation. What is carried over sends the requests that k6 sends,
// each as often.
func TestK6Table(t *testing.T) {
	dir := t.TempDir()
	counts := map[string]int{}
	rows := table(t, dir)
	for _, r := range rows {
		t.Run(r.file, func(t *testing.T) {
			s := newServer(t)
			s.answer = k6Runs.answer
			e, items := importRow(t, dir, r)
			outcome := outcomeOf(e, items, r)
			if counts[outcome]++; outcome != r.outcome {
				t.Errorf("%s: %s is %s, want %s:\n%s", r.area, r.what, outcome, r.outcome, texts(items))
			}
			if outcome != carried || r.fromWeb || testing.Short() || !k6Runs.hasProgram() {
				return
			}
			var theirs, ours string
			for range mostAttempts {
				v := e.Variants[0]
				v.Target.Address = s.address
				runAll(t, &v)
				ours, theirs = s.texts(s.take(), k6Runs.own, false), k6Runs.send(t, dir, r.file)
				if ours, theirs = random.ReplaceAllString(ours, "$1…"), random.ReplaceAllString(theirs, "$1…"); alike(ours, theirs, r.within) {
					return
				}
			}
			t.Errorf("%s: %s: other requests than k6's:\n%s", r.area, r.what, diff.Diff("k6", []byte(theirs), "dyno", []byte(ours)))
		})
	}
	t.Logf("%d rows: %v", len(rows), counts)
}

// runAll carries a load out, with what is done once before and after it.
func runAll(t *testing.T, v *plan.Variant) {
	t.Helper()
	once := func(part scenario.Part) (values map[string]string) {
		if len(v.Load.Scenario.OfPart(part).Steps) > 0 {
			var err error
			if values, err = generator.Once(t.Context(), v, 1, part, nil); err != nil {
				t.Fatal(err)
			}
		}
		return values
	}
	if err := v.Fill(nil); err != nil {
		t.Fatal(err)
	}
	if values := once(scenario.OfSetup); values != nil {
		v.Load.Scenario = v.Load.Scenario.AfterSetup(values)
	}
	run(t, v)
	once(scenario.OfTeardown)
}

// alike tells whether both have the same requests, each as often but for a difference.
func alike(a, b string, within int) bool {
	counts := map[string]int{}
	for r := range strings.SplitSeq(strings.TrimSpace(a), "\n\n") {
		counts[strings.TrimSpace(r)]++
	}
	for r := range strings.SplitSeq(strings.TrimSpace(b), "\n\n") {
		counts[strings.TrimSpace(r)]--
	}
	for _, n := range counts {
		if max(n, -n) > within {
			return false
		}
	}
	return true
}

// importRow imports the script of a row. There is no experiment if it is refused.
func importRow(t *testing.T, dir string, r row) (*plan.Experiment, []draft.Item) {
	t.Helper()
	t.Chdir(dir)
	out := r.file + ".yaml"
	result, err := imports.Read(draft.Source{Format: "k6", File: r.file, Out: out})
	if err != nil {
		return nil, []draft.Item{{What: err.Error()}}
	}
	for _, f := range result.Files {
		if err := os.WriteFile(f.Name, f.Content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	e, err := planfile.ParseWithFiles(out, result.Text, planfile.Options{})
	if err != nil {
		t.Fatalf("what was made of the script is no experiment: %v\n%s", err, result.Text)
	}
	return e, result.Items
}

// outcomeOf returns the outcome of a row. Credentials that are hidden are not lost.
func outcomeOf(e *plan.Experiment, items []draft.Item, r row) string {
	byLine := func(i draft.Item) bool {
		return !k6Runs.general(i) && !strings.HasPrefix(i.Why, "this is a credential")
	}
	switch {
	case e == nil:
		return refused
	case slices.ContainsFunc(items, byLine):
		return lost
	case slices.ContainsFunc(items, func(i draft.Item) bool { return r.outcome == general && strings.Contains(r.what, i.What) }):
		return general
	}
	return carried
}

// The page on k6 has the table.
func TestK6TablePage(t *testing.T) {
	const begin, end = "<!-- the table -->\n", "<!-- its end -->\n"
	path := filepath.Join("..", "..", "..", "docs", "from", "k6.md")
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(page), begin)
	_, after, also := strings.Cut(rest, end)
	if !ok || !also {
		t.Fatalf("%s has no place for the table", path)
	}
	var b strings.Builder
	said := map[string]string{carried: "carried over", lost: "listed as lost", general: "listed as lost, for the whole script", refused: "refused"}
	fmt.Fprintf(&b, "%s%s\n| | k6 | outcome |\n|---|---|---|\n", before, begin)
	area := ""
	for _, r := range table(t, t.TempDir()) {
		first := ""
		if r.area != area {
			first, area = r.area, r.area
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", first, r.what, said[r.outcome])
	}
	want := b.String() + "\n" + end + after
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o666); err != nil { //nolint:gosec // it is committed
			t.Fatal(err)
		}
	} else if want != string(page) {
		t.Errorf("%s has another table (-update writes it)", path)
	}
}
