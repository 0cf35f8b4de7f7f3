package report

import (
	"encoding/xml"
	"fmt"
	"io"
	"slices"
	"strings"

	"dyno/internal/texts"
	"dyno/judge/verdict"
	"dyno/judge/verdict/expr"
	"dyno/results/rundir"
)

// The elements of JUnit's format, as Jenkins and GitLab read it: the order of
// attributes and children is that of Jenkins's schema (junit-10.xsd).
type (
	junitSuites struct {
		XMLName  xml.Name     `xml:"testsuites"`
		Name     string       `xml:"name,attr"`
		Tests    int          `xml:"tests,attr"`
		Failures int          `xml:"failures,attr"`
		Errors   int          `xml:"errors,attr"`
		Time     string       `xml:"time,attr,omitempty"`
		Suites   []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name       string          `xml:"name,attr"`
		Tests      int             `xml:"tests,attr"`
		Failures   int             `xml:"failures,attr"`
		Errors     int             `xml:"errors,attr"`
		Skipped    int             `xml:"skipped,attr"`
		Time       string          `xml:"time,attr,omitempty"`
		Timestamp  string          `xml:"timestamp,attr,omitempty"`
		Hostname   string          `xml:"hostname,attr,omitempty"`
		Properties []junitProperty `xml:"properties>property"`
		Cases      []junitCase     `xml:"testcase"`
	}
	junitProperty struct {
		Name  string `xml:"name,attr"`
		Value string `xml:"value,attr"`
	}
	junitCase struct {
		Name      string        `xml:"name,attr"`
		Classname string        `xml:"classname,attr"`
		Time      string        `xml:"time,attr"` // they are decided together: 0
		Skipped   *junitSkipped `xml:"skipped"`
		Error     *junitProblem `xml:"error"`
		Failure   *junitProblem `xml:"failure"`
		SystemOut string        `xml:"system-out,omitempty"`
	}
	junitSkipped struct {
		Message string `xml:"message,attr"`
	}
	junitProblem struct {
		Message string `xml:"message,attr"`
		Type    string `xml:"type,attr"`
		Text    string `xml:",chardata"`
	}
)

// JUnit writes a judged run as JUnit's XML, for a build server. There is a test case for
// the run's validity, for each threshold and variant, for each comparison in the plan's
// metric, and for each claim. A threshold that is broken or not settled is a failure, and
// so is a regression beyond the plan's margin (verdict.Regressions). A run that was not
// measured whole is an error. A claim never fails: one that is not shown to hold is
// skipped.
func JUnit(w io.Writer, run *rundir.Run) error {
	p := newPage(&rundir.Folder{Run: *run})
	suite := junitSuite{
		Name:       Printable(p.title()),
		Hostname:   Printable(run.Environment.Hostname),
		Properties: p.junitProperties(),
		Cases:      p.junitCases(),
	}
	if !run.StartedAt.IsZero() {
		suite.Timestamp = run.StartedAt.UTC().Format("2006-01-02T15:04:05")
		if run.FinishedAt != nil {
			suite.Time = fmt.Sprintf("%.3f", max(0, run.FinishedAt.Sub(run.StartedAt).Seconds()))
		}
	}
	for _, c := range suite.Cases {
		suite.Tests++
		switch {
		case c.Error != nil:
			suite.Errors++
		case c.Failure != nil:
			suite.Failures++
		case c.Skipped != nil:
			suite.Skipped++
		}
	}
	all := junitSuites{
		Name: "dyno", Tests: suite.Tests, Failures: suite.Failures, Errors: suite.Errors, Time: suite.Time,
		Suites: []junitSuite{suite},
	}
	text, err := xml.MarshalIndent(all, "", "  ")
	if err == nil {
		_, err = fmt.Fprintf(w, "%s%s\n", xml.Header, text)
	}
	if err != nil {
		return fmt.Errorf("report as junit: %w", err)
	}
	return nil
}

func (p *page) junitProperties() []junitProperty {
	properties := []junitProperty{{"seed", fmt.Sprint(p.run.Plan.Seed)}, {"rounds", fmt.Sprint(p.run.Rounds)}}
	if p.run.DynoVersion != "" {
		properties = append(properties, junitProperty{"dyno", Printable(p.run.DynoVersion)})
	}
	if len(p.run.Command) > 0 {
		properties = append(properties, junitProperty{"command", Printable(CommandLine(p.run.Command))})
	}
	return properties
}

func (p *page) junitCases() []junitCase {
	cases := []junitCase{p.junitValidity(), p.junitTargets()}
	for _, x := range p.run.Thresholds {
		cases = append(cases, p.junitThreshold(x))
	}
	regressions := verdict.Regressions(p.run)
	for _, c := range p.run.Comparisons {
		if c.Primary {
			cases = append(cases, p.junitComparison(c, regressions))
		}
	}
	for _, c := range p.run.Claims {
		cases = append(cases, p.junitClaim(c))
	}
	return cases
}

func (p *page) junitCase(group, name string) junitCase {
	return junitCase{Name: Printable(group + ": " + name), Classname: Printable(p.title()), Time: "0"}
}

func (p *page) junitValidity() junitCase {
	c := p.junitCase("run", "complete and valid")
	var flags []string
	if m := verdict.MostlyDisturbed(p.run); m != nil {
		flags = append(flags, Printable(m.In(texts.English)))
	}
	for _, g := range p.flagGroups() {
		flags = append(flags, Printable(fmt.Sprintf("%s: %s: %s: %s", severity(g.first), g.first.Kind, where(g.first, g.trials), g.detail())))
	}
	text := strings.Join(flags, "\n")
	switch {
	case !p.run.Complete:
		c.Error = &junitProblem{Message: Printable("incomplete: " + p.run.Reason), Type: "incomplete", Text: text}
	case !p.run.Valid:
		c.Failure = &junitProblem{Message: Printable(p.run.Reason), Type: "invalid", Text: text}
	default:
		c.SystemOut = text
	}
	return c
}

// junitTargets fails where a target could not be reached, ended, or answered nothing or only in
// part: such a run is complete, and valid.
func (p *page) junitTargets() junitCase {
	c := p.junitCase("run", "targets answered")
	var found []string
	for _, g := range p.flagGroups() {
		if g.first.Breaks {
			found = append(found, Printable(strings.Join(slices.DeleteFunc([]string{g.first.Variant, g.first.Kind, where(g.first, g.trials), g.detail()}, func(s string) bool { return s == "" }), ": ")))
		}
	}
	if len(found) > 0 {
		c.Failure = &junitProblem{Message: found[0], Type: "target", Text: strings.Join(found, "\n")}
	}
	return c
}

func (p *page) junitThreshold(x rundir.Threshold) junitCase {
	name := x.Text
	if x.Variant != "" {
		name += " of " + x.Variant
	}
	c := p.junitCase("threshold", name)
	found := "measured " + p.measured(x.Text, expr.ForThreshold, x.Measured, x.Low, x.High)
	if x.Measured == nil {
		found = "nothing measured"
	}
	if x.Detail != "" {
		found += "; " + x.Detail
	}
	if x.OK {
		c.SystemOut = Printable(found)
		return c
	}
	kind := x.Outcome
	if kind == "" {
		kind = rundir.Undecided
	}
	c.Failure = &junitProblem{Message: Printable(kind + ": " + found), Type: Printable(kind)}
	return c
}

func (p *page) junitComparison(x rundir.Comparison, regressions []rundir.Comparison) junitCase {
	group := "comparison"
	if x.Role != "" {
		group = x.Role
	}
	c := p.junitCase(group, x.Variant+" with "+x.Base+" in "+x.Metric)
	text := Printable(fmt.Sprintf("%s (%s)", p.comparisonSays(x).In(texts.English), plural(x.Rounds, "round")))
	if x.Role == rundir.RoleControl {
		text = Printable(fmt.Sprintf("%s (%s): %s", change(x.Ratio), plural(x.Rounds, "round"), p.controlLine(x).In(texts.English)))
	}
	regressed := slices.ContainsFunc(regressions, func(r rundir.Comparison) bool {
		return r.Base == x.Base && r.Variant == x.Variant && r.Role == x.Role && r.Metric == x.Metric
	})
	if regressed {
		c.Failure = &junitProblem{Message: text, Type: "regression"}
	} else {
		c.SystemOut = text
	}
	return c
}

func (p *page) junitClaim(x rundir.Claim) junitCase {
	c := p.junitCase("claim", x.ID)
	text := x.Outcome + ": " + says(x)
	if m := p.claimed(x); m != "" {
		text += "; measured " + m
	}
	c.SystemOut = Printable(text)
	if x.Outcome != rundir.Holds && x.Outcome != rundir.DirectionOnly {
		c.Skipped = &junitSkipped{Message: Printable(x.Outcome)}
	}
	return c
}
