// Package answer condenses a judged run to the few sentences and the small table that every
// report begins with. They are data, so that each reader has them in its own language.
//
// To read the source: answer.go puts the parts together; comparisons.go, results.go and
// target.go are what it says, trust.go how far that can be relied on, next.go what to do.
package answer

import (
	"cmp"
	"slices"
	"strconv"

	"dyno/internal/texts"
	"dyno/judge/verdict"
	"dyno/report/figure"
	"dyno/report/judged"
	"dyno/results/rundir"
)

// An Answer is the short result of a run, before all its figures. It is data: the
// terminal, a document and the page make the same sentences of it, each in its reader's
// language.
type Answer struct {
	Says  []texts.Message `json:"says"`            // the answer itself
	Table *Brief          `json:"table,omitempty"` // the claims, or else what was compared or measured
	From  []texts.Message `json:"from,omitempty"`  // which agents carried the load, where any did
	Pairs []texts.Message `json:"pairs,omitempty"` // which of all pairs of variants differ, a sentence for each metric
	Sure  []texts.Message `json:"sure,omitempty"`  // how sure the answer is: rounds, intervals and the control, in one sentence
	Broke []texts.Message `json:"broke,omitempty"` // findings about the target
	// Unsure are the thresholds that are kept only as measured, and why.
	Unsure []texts.Message `json:"unsure,omitempty"`
	Trust  []texts.Message `json:"trust,omitempty"` // how many figures of each state, in one sentence
	Asked  []texts.Message `json:"asked,omitempty"` // the figures that were asked for and are not as printed
	Again  []texts.Message `json:"again,omitempty"` // what was measured again, and the outcome with the rounds that were
	Next   *texts.Message  `json:"next,omitempty"`  // the one thing that helps most
	Rest   *texts.Message  `json:"rest,omitempty"`  // where the whole result is
	// Placed says on which agents' machines targets and services ran, where any did.
	Placed []texts.Message `json:"placed,omitempty"`
}

// A Block is what an answer says under a heading.
type Block struct {
	Head      string // the kind of its text
	Sentences []string
}

// Blocks returns what stands below the answer itself and its table, in the order of all reports, in English.
func (a *Answer) Blocks() []Block {
	said := func(m *texts.Message) []string {
		if m == nil {
			return nil
		}
		return []string{m.In(texts.English)}
	}
	joined := func(lines []texts.Message) []string {
		if len(lines) == 0 {
			return nil
		}
		return []string{texts.Joined(texts.English, lines)}
	}
	return slices.DeleteFunc([]Block{
		{"from", InEnglish(a.From)}, {"placed", InEnglish(a.Placed)}, {"pairs", InEnglish(a.Pairs)}, {"sure", joined(a.Sure)}, {"broke", InEnglish(a.Broke)},
		{"unsure", InEnglish(a.Unsure)}, {"trust", append(joined(a.Trust), InEnglish(a.Asked)...)}, {"again", InEnglish(a.Again)}, {"next", said(a.Next)}, {"rest", said(a.Rest)},
	}, func(b Block) bool { return len(b.Sentences) == 0 })
}

// counted is a message about a number of things, which has a form for one.
func counted(kind string, n int, pairs ...string) texts.Message {
	if n == 1 {
		kind += ".one"
	}
	return texts.New(kind, append(pairs, "n", figure.Whole(int64(n)))...)
}

// A Brief is a table of cells that need no language. The exception is cells under heads
// named outcome, verdict and metric, for which there are words. The most important rows
// come first.
type Brief struct {
	Kind string     `json:"kind"` // claims, comparisons, ladder, levels, capacities, trends or variants
	Head []string   `json:"head"` // the content of each column
	Rows [][]string `json:"rows"`
}

// Make condenses a run to its answer. It needs only the run. For a folder, the answer
// names its place.
func Make(f *rundir.Folder) Answer {
	j := judged.Of(f)
	a := Answer{Says: conclusion(j), Table: table(j)}
	if !j.IsEmpty() {
		a.From, a.Placed, a.Pairs, a.Sure, a.Trust, a.Asked = from(j), placed(j), pairs(j), sure(j), trust(j), doubtful(j)
	}
	a.Broke, a.Unsure, a.Again, a.Next = broke(j), unsure(j), again(j), next(j)
	rest := texts.New("rest.full")
	if f.Dir != "" {
		rest = texts.New("rest.folder", "folder", f.Dir)
	}
	a.Rest = &rest
	return a
}

// mostSentences is how many sentences the answer has at most.
const mostSentences = 3

// conclusion answers the experiment's question.
func conclusion(j *judged.Result) []texts.Message {
	lines := Unfinished(j)
	most := mostSentences
	add := func(more []texts.Message) {
		lines = append(lines, more[:min(len(more), max(0, most-len(lines)))]...)
	}
	if j.IsEmpty() {
		add([]texts.Message{texts.New("answer.nothing")})
		return lines
	}
	failed := failures(j)
	lines, most = append(lines, failed...), most+len(failed)
	if j.Run.NoRoom != nil {
		return append(lines, *j.Run.NoRoom, *cmp.Or(verdict.MostlyDisturbed(j.Run), new(texts.New("no_room.idle"))))
	}
	testable := slices.ContainsFunc(j.Run.Claims, func(c rundir.Claim) bool { return c.Outcome != rundir.NotTestable })
	compared := comparisons(j)
	switch {
	case j.Run.Plan.Ladder != nil && len(compared) > 0:
		add(compared)
	case len(compared) > 0 && testable:
		add(compared[:1])
	case len(compared) > 0:
		add(compared)
	}
	if worse := alsoWorse(j); len(worse) > 0 {
		lines = append(lines, texts.New("answer.worse").With("list", worse...))
	}
	if testable {
		add([]texts.Message{claimOutcomes(j)})
	}
	switch {
	case len(j.Run.Sweeps) > 0 && len(compared) == 0:
		add(sweeps(j))
	case len(j.Run.Capacities) > 0:
		add(capacities(j))
	case j.Run.Plan.Soak:
		add(trends(j))
	case len(compared) == 0 && !testable:
		add(alone(j))
	}
	if m := verdict.MostlyDisturbed(j.Run); m != nil && !j.IsQuick() {
		lines = append(lines, *m)
	}
	return lines
}

// Unfinished says that trials are missing, and why.
func Unfinished(j *judged.Result) []texts.Message {
	if j.Folder.Complete() {
		return nil
	}
	interrupted := j.Interrupted()
	if j.IsQuick() && len(interrupted) > 0 {
		l := interrupted[0]
		l.Kind = "answer.interrupted.quick"
		return []texts.Message{l.With("why", withoutTrial(j.Run.Unfinished()))}
	}
	measured := 0
	for _, t := range j.Folder.Trials {
		if t.Complete && !j.Examined(t.Number).Replaced {
			measured++
		}
	}
	if j.IsSearch() {
		return []texts.Message{texts.New("answer.interrupted.search", "measured", strconv.Itoa(measured)).With("why", withoutTrial(j.Run.Unfinished()))}
	}
	var l texts.Message
	if n := j.Run.TrialsPlanned; n > 0 {
		l = counted("answer.incomplete", n, "measured", strconv.Itoa(measured), "planned", figure.Whole(int64(n)))
	} else {
		l = counted("answer.incomplete.search", measured, "measured", strconv.Itoa(measured))
	}
	lines := append([]texts.Message{l}, interrupted[:min(len(interrupted), 1)]...)
	reasons := judged.Incomplete(j.Folder)
	return append(lines, reasons[:min(len(reasons), 2)]...)
}

// withoutTrial is why a run ended, without the number of the trial in which it did.
func withoutTrial(why texts.Message) texts.Message {
	if cause := why.Parts["error"]; len(cause) > 0 {
		return cause[0]
	}
	return why
}

// InEnglish returns lines of text, in English.
func InEnglish(lines []texts.Message) []string {
	var out []string
	for _, l := range lines {
		out = append(out, l.In(texts.English))
	}
	return out
}
