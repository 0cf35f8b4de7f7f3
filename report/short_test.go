package report

import (
	"bytes"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"dyno/internal/texts"
	"dyno/judge/verdict"
	"dyno/judge/verdict/checks"
	"dyno/report/answer"
	"dyno/report/judged"
	"dyno/report/short"
	"dyno/results/rundir"
)

// fits fails when an answer is larger than its screen, which has a number of columns.
func fits(t *testing.T, f *rundir.Folder, text string, columns int) {
	t.Helper()
	most := 24
	if p := newPage(f); (p.IsQuick() || p.IsSearch()) && !p.IsEmpty() {
		most = 14
	}
	if n := strings.Count(text, "\n"); n > most {
		t.Errorf("%d lines, want at most %d:\n%s", n, most, text)
	}
	for line := range strings.Lines(text) {
		if n := utf8.RuneCountInString(line) - 1; n > columns {
			t.Errorf("%d characters: %s", n, line)
		}
	}
	if strings.Contains(text, "∞") || strings.Contains(text, "{") {
		t.Errorf("an answer with an infinity, or a value that is missing:\n%s", text)
	}
}

// A comparison without an interval says what there is instead: the range of its rounds, or how few there are.
func TestComparisonsWithoutIntervals(t *testing.T) {
	j := judged.Of(&rundir.Folder{})
	for _, c := range []struct {
		values  []float64
		control string
		want    string
	}{
		{[]float64{1.2}, "1 round", "(1 round; an interval needs ≥ 2 rounds)"},
		{[]float64{1.1, 1.3}, "rounds: range 1.100 … 1.30", "(rounds: range 1.100 … 1.30; an interval needs ≥ 6 rounds)"},
	} {
		of := rundir.Comparison{Variant: "b", Base: "a", Metric: "throughput", Rounds: len(c.values), Ratio: rundir.Estimate{Estimate: ptr(1.2), Values: c.values}}
		for verdict, before := range map[string]string{
			"":            "it is not settled whether b and a differ in throughput: 1.200 times ",
			rundir.Better: "b has 1.200 times the throughput of a ",
		} {
			of.Verdict = verdict
			if got := answer.Comparison(j, of).In(texts.English); got != before+c.want {
				t.Errorf("%q, want %q", got, before+c.want)
			}
		}
		if got, want := answer.Control(j, of).In(texts.English), "the control has too few rounds for an interval: "+c.control; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// firstScreens are the examples of what the commands print that people begin with.
var firstScreens = []string{"quick", "quick-open", "quick-stream", "quick-agents", "compare", "capacity", "search"}

// colours are the codes of a terminal's colours.
var colours = regexp.MustCompile("\x1b\\[[0-9]+m")

func TestShort(t *testing.T) {
	for name, f := range examples() {
		t.Run(name, func(t *testing.T) {
			var piped bytes.Buffer
			if err := short.Text(&piped, f, short.Screen{Kept: true}); err != nil {
				t.Fatal(err)
			}
			golden(t, name+".short.txt", piped.String())
			var coloured bytes.Buffer
			if err := short.Text(&coloured, f, short.Screen{Kept: true, Colour: true}); err != nil {
				t.Fatal(err)
			}
			if plain := colours.ReplaceAllString(coloured.String(), ""); plain != piped.String() {
				t.Errorf("with colours it says something else:\n%s", plain)
			}
			if name == "quick" && !strings.Contains(coloured.String(), "\x1b[31m9 failed\x1b[0m") {
				t.Errorf("what failed is not red:\n%s", coloured.String())
			}
			if strings.Contains(piped.String(), "…\n") {
				t.Errorf("a line is cut in a pipe:\n%s", piped.String())
			}
			for _, columns := range []int{60, 80, 200} {
				var b bytes.Buffer
				if err := short.Text(&b, f, short.Screen{Width: columns}); err != nil {
					t.Fatal(err)
				}
				fits(t, f, b.String(), columns)
				if columns == 80 && slices.Contains(firstScreens, name) {
					golden(t, name+".80.txt", b.String())
				}
			}
		})
	}
}

// What helps a run that shows nothing is a quiet machine only if something disturbed it.
func TestNextWithoutRoom(t *testing.T) {
	for _, c := range []struct {
		name      string
		noRoom    string
		disturbed bool
		flag      string
		want      string
	}{
		{"disturbed", "no_room.disturbed", true, "", "next.quiet"},
		{"the control differs, disturbed", "no_room.differs", true, "control_differs", "next.quiet"},
		{"the control differs", "no_room.differs", false, "control_differs", "remedy.control"},
		{"the control is wide", "no_room.wide", false, "", "next.wide"},
	} {
		f := exampleNoRoom()
		f.Run.NoRoom = new(texts.New(c.noRoom, "base", "pool", "metric", "throughput", "share", "12 %"))
		if !c.disturbed {
			f.Run.Flags, f.Run.Validity = nil, nil
		}
		for i := range f.Run.Trials {
			f.Run.Trials[i].Disturbed = c.disturbed
		}
		if c.flag != "" {
			f.Run.Flags = append(f.Run.Flags, rundir.Flag{Kind: c.flag, Variant: "pool.control"})
		}
		if next := answer.Make(f).Next; next == nil || next.Kind != c.want {
			t.Errorf("%s: %v, want %s", c.name, next, c.want)
		}
	}
}

// The answer fits its screen, however long and however many names, questions, claims and
// findings are. No text of a run drives the terminal.
func TestShortOfHostileRuns(t *testing.T) {
	for name, f := range examples() {
		t.Run(name, func(t *testing.T) {
			r := &f.Run
			for i := range 40 {
				r.Claims = append(r.Claims, rundir.Claim{
					ID: fmt.Sprintf("%s/%d", strings.Repeat("claim", 30), i), Says: strings.Repeat("it says more and more ", 30),
					Holds: "value(x, throughput) > 1", Outcome: []string{rundir.Refuted, rundir.Holds, rundir.NotSettled}[i%3], Measured: ptr(1.5), Low: ptr(1.4), High: ptr(1.6),
				})
				variant := fmt.Sprintf("%s-%d", strings.Repeat("variant", 20), i)
				for _, kind := range []string{"no_answers", "stalled", "connections", "drops", "subscribers", "incomplete", "redirects", "conflicts", "deviations", "unheard_of"} {
					r.Flags = append(r.Flags, rundir.Flag{Kind: kind, Variant: variant, Trial: i + 1, Breaks: true, Measured: ptr(float64(i)), Unit: "s", Detail: new(texts.Verbatim(wild))})
				}
				for _, state := range []string{rundir.StateBounded, rundir.StateRelative, rundir.StateNotIdentified} {
					r.Validity = append(r.Validity, rundir.Validity{
						Figure: "service.p99", Variant: variant, Base: strings.Repeat("base", 30), State: state, Asked: true, Low: ptr(1.), High: ptr(2.),
						Why: new(texts.Verbatim(strings.Repeat("for a reason ", 30))), Causes: []string{"steal"},
					})
				}
				r.Thresholds = append(r.Thresholds, rundir.Threshold{Text: strings.Repeat("throughput > 1 && ", 20), Variant: variant, Outcome: rundir.Broken, Measured: ptr(1.)})
			}
			rewild(reflect.ValueOf(f), []string{"Kind", "State", "Outcome", "Role", "Verdict", "Interval", "Metric", "Figure", "Loop", "Dir"})
			r.Question = strings.Repeat(r.Question+wild, 9)
			var b bytes.Buffer
			if err := short.Text(&b, f, short.Screen{Width: 100, Kept: true}); err != nil {
				t.Fatal(err)
			}
			text := strings.NewReplacer("{", "", "∞", "").Replace(b.String())
			fits(t, f, text, 100)
			if strings.ContainsAny(text, "\x1b\u009b\u202e\r\x00") {
				t.Errorf("it drives the terminal: %q", text)
			}
		})
	}
}

// A run most of whose trials were disturbed says so wherever its answer stands; a quick load has
// its own words.
func TestDisturbedRunsSaySo(t *testing.T) {
	for _, f := range []*rundir.Folder{exampleCompare(), exampleQuick()} {
		for i := range f.Run.Trials {
			e := &f.Run.Trials[i]
			e.Disturbed = i%3 < 2
			f.Run.Flags = append(f.Run.Flags, rundir.Flag{Kind: checks.FlagSteal, Trial: e.Number, Disturbs: true})
		}
		said := verdict.MostlyDisturbed(&f.Run).In(texts.English)
		want := !newPage(f).IsQuick()
		for name, write := range map[string]func(w io.Writer) error{
			"first screen":   func(w io.Writer) error { return short.Text(w, f, short.Screen{Kept: true}) },
			"text":           func(w io.Writer) error { return Text(w, f) },
			"short Markdown": func(w io.Writer) error { return short.Markdown(w, f) },
			"Markdown":       func(w io.Writer) error { return Markdown(w, f) },
		} {
			var b bytes.Buffer
			if err := write(&b); err != nil {
				t.Fatal(err)
			}
			if strings.Contains(b.String(), said) != want {
				t.Errorf("%s of %s: want %q: %v\n%s", name, f.Run.Name, said, want, b.String())
			}
		}
	}
}

// Where a trial was measured again because an agent was lost, it is said which.
func TestAgentLost(t *testing.T) {
	for name, f := range map[string]*rundir.Folder{"quick": exampleQuick(), "experiment": exampleLadder()} {
		f.Run.Trials = append(f.Run.Trials, rundir.Examined{Number: 1, Round: 1, Replaced: true, Checks: []rundir.Check{{
			Kind: checks.FlagIncomplete, About: rundir.AboutGenerator, Outcome: rundir.CheckDisturbed,
			Detail: new(texts.New("reason.trial", "trial", "1", "variant", "default", "error", "agent b: EOF")),
		}}})
		for form, got := range both(t, f) {
			if !strings.Contains(got, "1 trial whose agent was lost: agent b: EOF") {
				t.Errorf("%s, %s: %s", name, form, got)
			}
		}
	}
}

// A quick load that its target lost before the window shows the failures, and no window of 0 s.
func TestQuickLost(t *testing.T) {
	f := exampleQuick()
	x := &f.Trials[0].Trial
	x.Complete, x.Fault, x.WindowSeconds, x.WarmupSeconds = false, rundir.FaultTarget, 0, 0
	for name, write := range map[string]func(io.Writer, *rundir.Folder) error{
		"short": func(w io.Writer, f *rundir.Folder) error { return short.Text(w, f, short.Screen{}) }, "text": Text,
	} {
		var b bytes.Buffer
		if err := write(&b, f); err != nil {
			t.Fatal(err)
		}
		if got := b.String(); !strings.Contains(got, "102") || strings.Contains(got, " 0 s") {
			t.Errorf("%s:\n%s", name, got)
		}
	}
}

// An effect that cannot be relied on is marked.
func TestLadderUnidentified(t *testing.T) {
	f := exampleLadder()
	s := &f.Run.Ladder[1]
	s.Verdict, s.TotalVerdict = rundir.Invalid, rundir.Invalid
	row := answer.Make(f).Table.Rows[1]
	if row[2] != "+4.0%?" || row[3] != rundir.Invalid || row[4] != "+4.0%?" {
		t.Errorf("row %q, want ratios with a mark", row)
	}
}

// What the target did is shown although it breaks nothing, after what does.
func TestRemarks(t *testing.T) {
	for _, f := range examples() {
		f.Run.Thresholds = nil
		because := texts.New("found.deviations").With("ways", texts.New("deviation.bare_lf", "n", "20"))
		f.Run.Flags = []rundir.Flag{
			{Kind: "deviations", Variant: "x", Trial: 1, Detail: &because}, {Kind: "steal", Variant: "x", Trial: 1},
			{Kind: "redirects", Variant: "x", Trial: 1, Measured: ptr(20.)}, {Kind: "stalled", Variant: "x", Trial: 1, Breaks: true},
		}
		var kinds []string
		for _, m := range answer.Make(f).Broke {
			kinds = append(kinds, strings.TrimSuffix(m.Kind, ".quick"))
		}
		if want := []string{"broke.stalled", "broke.deviations", "broke.redirects"}; !slices.Equal(kinds, want) {
			t.Errorf("%s: %v, want %v", f.Run.Name, kinds, want)
		}
	}
}

// both are the short answer and the whole report.
func both(t *testing.T, f *rundir.Folder) map[string]string {
	t.Helper()
	texts := map[string]string{}
	for name, write := range map[string]func(io.Writer, *rundir.Folder) error{
		"short": func(w io.Writer, f *rundir.Folder) error { return short.Text(w, f, short.Screen{}) }, "text": Text,
	} {
		var b bytes.Buffer
		if err := write(&b, f); err != nil {
			t.Fatal(err)
		}
		texts[name] = strings.Join(strings.Fields(b.String()), " ")
	}
	return texts
}

// A target that answered, but nothing well, is said to have answered what it did; dyno did not start
// it, so that there is no output of it.
func TestNoGoodAnswers(t *testing.T) {
	f := exampleQuick()
	because := texts.New("found.no_good_answers", "answers", "404 × 20 (no such path)")
	f.Run.Flags = []rundir.Flag{{Kind: "no_answers", Trial: 1, Variant: "target", Breaks: true, Detail: &because}}
	f.Run.Variants[0].Counts.ByStatus = map[string]int64{"404": 20}
	f.Trials[0].Failures = map[string]int64{"status: status 404: no such path": 20}
	for name, got := range both(t, f) {
		for _, want := range []string{"404 × 20 (no such path)", "target answered, though not well"} {
			if !strings.Contains(got, want) {
				t.Errorf("%s, without %q:\n%s", name, want, got)
			}
		}
		if name == "short" && (!strings.Contains(got, "no good answers: 404") || !strings.Contains(got, "404 × 20 (no such path)")) {
			t.Errorf("%s:\n%s", name, got)
		}
		// As what to do next, and in the notes.
		if advice := strings.Count(got, "target answered, though not well"); name == "text" && advice != 2 {
			t.Errorf("%s: said %d times:\n%s", name, advice, got)
		}
		if strings.Contains(got, "output of the target") {
			t.Errorf("%s:\n%s", name, got)
		}
	}
}

// Which share of the requests succeeded is said before any other figure, and how many users could
// not log in. A few failures are no headline.
func TestFailuresComeFirst(t *testing.T) {
	quick, compare := exampleQuick(), exampleCompare()
	for f, prefix := range map[*rundir.Folder]string{quick: "", compare: "goroutine: "} {
		v := &f.Run.Variants[len(f.Run.Variants)-1]
		v.Counts = rundir.Counts{Scheduled: 200, Sent: 200}
		failing(v, map[string]int64{"assertion": 99})
		v.Users = &rundir.Users{Count: 8, FailedLogins: 12, LoggedOut: 3}
		failure := `assertion: step "get": its body does not contain "ok"`
		for i := range f.Trials {
			f.Trials[i].Failures = map[string]int64{failure: 90, "timeout: no complete response in time": 9}
		}
		want := []string{prefix + `succeeded 50.5%; 99 of 200 failed (step "get": its body does not contain "ok")`, prefix + "3 users could not log in (12 logins failed)"}
		said := answer.Make(f).Says
		if len(said) < 3 || said[0].In(texts.English) != want[0] || said[1].In(texts.English) != want[1] {
			t.Errorf("%s", said)
		}
		if got := said[0].In(texts.Chinese); !strings.Contains(got, "成功 50.5%") || !strings.Contains(got, "200 个请求中 99 个失败") {
			t.Error(got)
		}
		var b strings.Builder
		if err := Markdown(&b, f); err != nil || !strings.Contains(b.String(), prefix+"succeeded 50.5%") {
			t.Errorf("%v\n%s", err, b.String())
		}
		v.Counts = rundir.Counts{Scheduled: 1100, Sent: 1100}
		failing(v, map[string]int64{"assertion": 1})
		v.Users = nil
		for name, got := range both(t, f) {
			if strings.Contains(got, "succeeded") || strings.Contains(got, "log in") {
				t.Errorf("%s:\n%s", name, got)
			}
		}
	}
	quick.Run.Variants[0].Counts = rundir.Counts{Scheduled: 200, Sent: 200}
	failing(&quick.Run.Variants[0], map[string]int64{"assertion": 99})
	quick.Run.Variants[0].Users = &rundir.Users{FailedLogins: 12, LoggedOut: 3}
	if got := both(t, quick)["short"]; !strings.Contains(got, " · succeeded 50.5%") || !strings.Contains(got, "logins 12 failed · 3 users waited to log in again at the end") {
		t.Error(got)
	}
}

// Only of a target that dyno started there is an output.
func TestOutputOfTheTarget(t *testing.T) {
	for _, started := range []bool{false, true} {
		f := exampleIncomplete()
		f.Dir, f.Run.Plan.Source = "", "" // else the advice is to go on
		for i := range f.Run.Plan.Variants {
			f.Run.Plan.Variants[i].Started = started
		}
		for name, got := range both(t, f) {
			if strings.Contains(got, "the output of the target") != started {
				t.Errorf("%s, started %v:\n%s", name, started, got)
			}
		}
	}
}

// Figures of an interrupted trial are marked.
func TestInterruptedVariant(t *testing.T) {
	f := exampleIncomplete()
	f.Run.Plan.Variants[1].WindowSeconds = 10
	x := &f.Trials[1].Trial
	x.Interrupted, x.WindowSeconds = true, 4
	want := "goroutine was interrupted: its figures are of 4.00 s of 10.0 s"
	for name, got := range both(t, f) {
		times := map[string]int{"short": 1, "text": 2}[name] // in the answer, and where what is missing is listed
		if strings.Count(got, want) != times {
			t.Errorf("%s, without %q:\n%s", name, want, got)
		}
	}
}
