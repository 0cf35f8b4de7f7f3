package report

import (
	"bytes"
	"strings"
	"testing"

	"dyno/internal/texts"
	"dyno/report/short"
	"dyno/results/rundir"
)

// What a search found says its first row, and a sentence how far that can be trusted.
func TestSearchScreen(t *testing.T) {
	because := texts.New("why.generator")
	state := func(r *rundir.Run, state string) {
		r.Validity = []rundir.Validity{{Figure: "capacity", Variant: "default", State: state, Why: &because}}
		r.Capacities[0].Searches[0].HighDisturbed = true
	}
	for name, c := range map[string]struct {
		change func(*rundir.Run, *rundir.Bracket)
		want   []string
	}{
		"known": {func(*rundir.Run, *rundir.Bracket) {}, []string{"capacity 3,810/s within response.p99 < 20ms, errors.ratio < 0.1%", "The server itself broke the limit at 4,530/s"}},
		"from below": {func(r *rundir.Run, b *rundir.Bracket) { state(r, rundir.StateBounded) },
			[]string{"capacity ≥3,810/s within", "The server may take more (≥): the generator was the limit"}},
		"nothing measured": {func(r *rundir.Run, b *rundir.Bracket) { state(r, rundir.StateBounded); b.AtHigh = nil },
			[]string{"broken at 4,530/s dyno or the machine was too busy to tell"}},
		"own limit": {func(r *rundir.Run, b *rundir.Bracket) {
			state(r, rundir.StateBounded)
			b.AtHigh, b.OwnLimit = nil, new(texts.Verbatim("all 50 connections were in use"))
		}, []string{"broken at 4,530/s all 50 connections were in use"}},
		"drops": {func(r *rundir.Run, b *rundir.Bracket) { r.Capacities[0].Limit, b.AtHigh[0].OK = "no_answers", true },
			[]string{"broken at 4,530/s the server answered nothing"}},
		"above the range": {func(_ *rundir.Run, b *rundir.Bracket) { b.High, b.AtHigh = nil, nil },
			[]string{"capacity ≥3,810/s within", "Every rate kept to the limit", "(--to)"}},
		"below the range": {func(_ *rundir.Run, b *rundir.Bracket) { b.Low, b.AtLow = nil, nil },
			[]string{"capacity – within", "Not even the lowest rate kept to the limit", "(--from)"}},
		"not known": {func(r *rundir.Run, b *rundir.Bracket) { state(r, rundir.StateNotIdentified); b.Low, b.AtLow = nil, nil },
			[]string{"capacity – within", "The capacity is not known: the generator was the limit"}},
		"interrupted": {func(r *rundir.Run, _ *rundir.Bracket) {
			r.Complete, r.Reason, r.Capacities[0].Searches = false, new(texts.Verbatim("interrupted by SIGINT")), nil
		}, []string{"INCOMPLETE: interrupted by SIGINT; loads measured: 6", "capacity ≥3,810/s within", "kept at 3,810/s", "broken at 4,530/s"}},
	} {
		f := exampleSearch()
		c.change(&f.Run, &f.Run.Capacities[0].Searches[0])
		if last := f.Trials[len(f.Trials)-1]; !f.Run.Complete {
			last.Complete, last.Interrupted, f.Incomplete = false, true, []rundir.Message{texts.Verbatim("interrupted")}
		}
		var b bytes.Buffer
		if err := short.Text(&b, f, short.Screen{}); err != nil {
			t.Fatal(err)
		}
		got := strings.Join(strings.Fields(b.String()), " ")
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: without %q:\n%s", name, want, &b)
			}
		}
		for _, word := range []string{"variant", "trial", "round", "default"} {
			if strings.Contains(strings.ToLower(b.String()), word) {
				t.Errorf("%s: the word %q:\n%s", name, word, &b)
			}
		}
		fits(t, f, b.String(), 200)
	}
}
