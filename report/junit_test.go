package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dyno/internal/texts"
	"dyno/judge/verdict"
	"dyno/judge/verdict/checks"
	"dyno/report/export"
	"dyno/results/rundir"
)

func TestJUnit(t *testing.T) {
	for _, name := range []string{"compare", "invalid", "incomplete", "ladder"} {
		var b bytes.Buffer
		if err := export.JUnit(&b, &examples()[name].Run); err != nil {
			t.Fatal(err)
		}
		golden(t, name+".xml", b.String())
	}
}

// What fails and what is skipped, by the case's name.
func TestJUnitOutcomes(t *testing.T) {
	run := exampleCompare().Run
	got := outcomes(t, &run)
	want := map[string]string{
		"run: complete and valid":                             "",
		"run: targets answered":                               "",
		"threshold: service.p99 < 4ms of pool":                "failure inconclusive",
		"threshold: service.p99 < 4ms of pool.control":        "failure inconclusive",
		"threshold: service.p99 < 4ms of goroutine":           "failure inconclusive",
		"threshold: service.p50 < 1ms of goroutine":           "failure broken",
		"threshold: ratio(goroutine, pool, throughput) > 0.9": "",
		"control: pool.control with pool in throughput":       "",
		"comparison: goroutine with pool in throughput":       "failure regression",
		"claim: R1.1": "skipped", "claim: R1.2": "", "claim: R1.10": "skipped", "claim: R1.3": "skipped",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	run.Plan.Margin = 0.1 // the loss of 6 % is within it
	if got := outcomes(t, &run)["comparison: goroutine with pool in throughput"]; got != "" {
		t.Errorf("a loss within the margin: %s", got)
	}
	run.Flags = append(slices.Clone(run.Flags), rundir.Flag{Kind: checks.FlagNoAnswers, Variant: "pool", Breaks: true, Detail: new(texts.Verbatim("nothing was answered in 4 s"))})
	if got := outcomes(t, &run)["run: targets answered"]; got != "failure target" {
		t.Errorf("a target that answered nothing: %q", got)
	}
	run.Trials = []rundir.Examined{{Number: 1, Disturbed: true}}
	run.Flags = append(run.Flags, rundir.Flag{Kind: checks.FlagSteal, Trial: 1, Disturbs: true})
	var disturbed bytes.Buffer
	if err := export.JUnit(&disturbed, &run); err != nil || !strings.Contains(disturbed.String(), verdict.MostlyDisturbed(&run).In(texts.English)) {
		t.Errorf("a disturbed run: %v\n%s", err, disturbed.String())
	}
	run.Valid = false
	if got := outcomes(t, &run)["run: complete and valid"]; got != "failure invalid" {
		t.Errorf("an invalid run: %s", got)
	}
	run.Complete = false
	if got := outcomes(t, &run)["run: complete and valid"]; got != "error incomplete" {
		t.Errorf("an incomplete run: %s", got)
	}
}

// outcomes reads a report back, and checks its sums.
func outcomes(t *testing.T, run *rundir.Run) map[string]string {
	t.Helper()
	var b bytes.Buffer
	if err := export.JUnit(&b, run); err != nil {
		t.Fatal(err)
	}
	var all export.JUnitSuites
	if err := xml.Unmarshal(b.Bytes(), &all); err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	failures, problems, skipped := 0, 0, 0
	for _, c := range all.Suites[0].Cases {
		found[c.Name] = ""
		switch {
		case c.Failure != nil:
			found[c.Name] = "failure " + c.Failure.Type
			failures++
		case c.Error != nil:
			found[c.Name] = "error " + c.Error.Type
			problems++
		case c.Skipped != nil:
			found[c.Name] = "skipped"
			skipped++
		}
	}
	s := all.Suites[0]
	if s.Tests != len(s.Cases) || s.Failures != failures || s.Errors != problems || s.Skipped != skipped || all.Tests != s.Tests || all.Failures != failures || all.Errors != problems {
		t.Errorf("sums %+v of %d cases with %d failures, %d errors and %d skipped", all, len(s.Cases), failures, problems, skipped)
	}
	return found
}

// It stays XML, whatever things are called.
func TestJUnitIsXML(t *testing.T) {
	run := exampleCompare().Run
	run.Name, run.Claims[0].Says, run.Thresholds[0].Text = wild, wild+"]]>", "\x00\x0b\ufffe"+wild
	run.Flags[0].Detail = new(texts.Verbatim(wild))
	var b bytes.Buffer
	if err := export.JUnit(&b, &run); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(b.String(), xml.Header) {
		t.Errorf("no header: %.60q", b.String())
	}
	d := xml.NewDecoder(&b)
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}
