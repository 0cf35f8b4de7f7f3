package export

import (
	"encoding/xml"
	"fmt"
	"io"
	"slices"
	"strings"

	"dyno/internal/texts"
	"dyno/judge/verdict"
	"dyno/report/answer"
	"dyno/report/figure"
	"dyno/report/judged"
	"dyno/results/rundir"
)

// The elements of JUnit's format, as Jenkins and GitLab read it: the order of
// attributes and children is that of Jenkins's schema (junit-10.xsd).
type (
	// JUnitSuites is the root.
	JUnitSuites struct {
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

// JUnit writes a judged run as JUnit's XML, for a build server. The test cases are the
// run's validity, each variant's thresholds, the comparisons in the plan's metric, and the
// claims. A threshold that is broken or not settled is a failure. A regression beyond the
// plan's margin is a failure, too (verdict.Regressions). A run that was not measured whole
// is an error. A claim never fails: one that is not shown to hold is skipped.
func JUnit(w io.Writer, run *rundir.Run) error {
	p := judged.Of(&rundir.Folder{Run: *run})
	suite := junitSuite{
		Name:       figure.Printable(p.Title()),
		Hostname:   figure.Printable(run.Environment.Hostname),
		Properties: junitProperties(p),
		Cases:      casesOf(p),
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
	all := JUnitSuites{
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

func junitProperties(j *judged.Result) []junitProperty {
	properties := []junitProperty{{"seed", fmt.Sprint(j.Run.Plan.Seed)}, {"rounds", fmt.Sprint(j.Run.Rounds)}}
	if j.Run.DynoVersion != "" {
		properties = append(properties, junitProperty{"dyno", figure.Printable(j.Run.DynoVersion)})
	}
	if len(j.Run.Command) > 0 {
		properties = append(properties, junitProperty{"command", figure.Printable(figure.CommandLine(j.Run.Command))})
	}
	return properties
}

func casesOf(j *judged.Result) []junitCase {
	cases := []junitCase{junitValidity(j), junitTargets(j)}
	for _, x := range j.Run.Thresholds {
		cases = append(cases, junitThreshold(j, x))
	}
	regressions := verdict.Regressions(j.Run)
	for _, c := range j.Run.Comparisons {
		if c.Primary {
			cases = append(cases, junitComparison(j, c, regressions))
		}
	}
	for _, c := range j.Run.Claims {
		cases = append(cases, junitClaim(j, c))
	}
	return cases
}

func caseOf(j *judged.Result, group, name string) junitCase {
	return junitCase{Name: figure.Printable(group + ": " + name), Classname: figure.Printable(j.Title()), Time: "0"}
}

func junitValidity(j *judged.Result) junitCase {
	c := caseOf(j, "run", "complete and valid")
	var flags []string
	if m := verdict.MostlyDisturbed(j.Run); m != nil {
		flags = append(flags, figure.Printable(m.In(texts.English)))
	}
	for _, g := range j.FlagGroups() {
		flags = append(flags, figure.Printable(fmt.Sprintf("%s: %s: %s: %s", judged.Severity(g.First), g.First.Kind, judged.Where(g.First, g.Trials), g.Detail())))
	}
	text := strings.Join(flags, "\n")
	switch {
	case !j.Run.Complete:
		c.Error = &junitProblem{Message: figure.Printable("incomplete: " + j.Run.Reason.English()), Type: "incomplete", Text: text}
	case !j.Run.Valid:
		c.Failure = &junitProblem{Message: figure.Printable(j.Run.Reason.English()), Type: "invalid", Text: text}
	default:
		c.SystemOut = text
	}
	return c
}

// junitTargets fails where a target could not be reached, ended, or answered nothing or only in
// part: such a run is complete, and valid.
func junitTargets(j *judged.Result) junitCase {
	c := caseOf(j, "run", "targets answered")
	var found []string
	for _, g := range j.FlagGroups() {
		if g.First.Breaks {
			found = append(found, figure.Printable(strings.Join(slices.DeleteFunc([]string{g.First.Variant, g.First.Kind, judged.Where(g.First, g.Trials), g.Detail()}, func(s string) bool { return s == "" }), ": ")))
		}
	}
	if len(found) > 0 {
		c.Failure = &junitProblem{Message: found[0], Type: "target", Text: strings.Join(found, "\n")}
	}
	return c
}

func junitThreshold(j *judged.Result, x rundir.Threshold) junitCase {
	name := x.Text
	if x.Variant != "" {
		name += " of " + x.Variant
	}
	c := caseOf(j, "threshold", name)
	found := "measured " + j.Measured(x)
	if x.Measured == nil {
		found = "nothing measured"
	}
	if x.Detail != nil {
		found += "; " + x.Detail.English()
	}
	if x.OK {
		c.SystemOut = figure.Printable(found)
		return c
	}
	kind := x.Outcome
	if kind == "" {
		kind = rundir.Undecided
	}
	c.Failure = &junitProblem{Message: figure.Printable(kind + ": " + found), Type: figure.Printable(kind)}
	return c
}

func junitComparison(j *judged.Result, x rundir.Comparison, regressions []rundir.Comparison) junitCase {
	group := "comparison"
	if x.Role != "" {
		group = x.Role
	}
	c := caseOf(j, group, x.Variant+" with "+x.Base+" in "+x.Metric)
	text := figure.Printable(fmt.Sprintf("%s (%s)", answer.Comparison(j, x).In(texts.English), figure.Plural(x.Rounds, "round")))
	if x.Role == rundir.RoleControl {
		text = figure.Printable(fmt.Sprintf("%s (%s): %s", figure.Change(x.Ratio), figure.Plural(x.Rounds, "round"), answer.Control(j, x).In(texts.English)))
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

func junitClaim(j *judged.Result, x rundir.Claim) junitCase {
	c := caseOf(j, "claim", x.ID)
	text := x.Outcome + ": " + judged.Says(x)
	if x.Published != "" {
		text += "; published " + x.Published
	}
	if m := j.Claimed(x); m != "" {
		text += "; measured " + m
	}
	c.SystemOut = figure.Printable(text)
	if x.Outcome == rundir.Refuted || x.Outcome == rundir.NotSettled || x.Outcome == rundir.NotTestable {
		c.Skipped = &junitSkipped{Message: figure.Printable(x.Outcome)}
	}
	return c
}
