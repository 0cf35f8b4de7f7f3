package rundir

import (
	"slices"
	"strings"

	"dyno/results/mask"
)

// A run folder is passed on, so it holds no credentials: neither those of the command line nor
// those of the experiment file, wherever they stand. Folders that hold some are read without them.

// secrets are the credentials that were found in a run.
type secrets struct {
	replace *strings.Replacer // nil: there are none
}

// secretsOf finds the credentials in what a user wrote.
func secretsOf(run *Run) *secrets {
	var found mask.Credentials
	inPlace(run, &found)
	return &secrets{found.Replacer()}
}

// run returns a run without credentials.
func (s *secrets) run(run *Run) *Run {
	out := inPlace(run, new(mask.Credentials))
	if s.replace == nil {
		return out
	}
	masked := mask.Copy(*out, s.text)
	masked.Plan.Masked = masked.Plan.Masked || masked.Plan.Source != out.Plan.Source
	return &masked
}

// trial returns a trial without credentials.
func (s *secrets) trial(t *Trial) *Trial {
	if s == nil || s.replace == nil {
		return t
	}
	return new(mask.Copy(*t, s.text))
}

// text returns a text without the credentials.
func (s *secrets) text(text string) string {
	if s == nil || s.replace == nil {
		return text
	}
	return s.replace.Replace(text)
}

// inPlace returns a run in which the credentials that a user wrote next to their names are
// masked. It notes them in found.
func inPlace(of *Run, found *mask.Credentials) *Run {
	run := *of
	run.Command = found.Arguments(run.Command)
	run.Plan = mask.Copy(run.Plan, strings.Clone)
	p := &run.Plan
	masked := func(name, text string) string {
		out := found.Named(name, text)
		p.Masked = p.Masked || out != text
		return out
	}
	p.Source = masked("", p.Source)
	// What variants are named after is compared, and no credential.
	names := func(text string) bool {
		return text != "" && slices.ContainsFunc(p.Variants, func(v PlanVariant) bool { return strings.Contains(v.Name, text) })
	}
	inMap := func(m map[string]string) {
		for name, text := range m {
			if !names(text) {
				m[name] = masked(name, text)
			}
		}
	}
	inMap(p.Set)
	for i := range p.Variants {
		inMap(p.Variants[i].Variables)
		p.Variants[i].Request = masked("", p.Variants[i].Request)
	}
	return &run
}
