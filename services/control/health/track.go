package health

import (
	"slices"
	"time"

	"dyno/services/control/resource"
)

// A track turns the results of a check into its health: a few bad ones in a row make it critical, and a few good ones
// end that.
type track struct {
	check  *resource.Check
	result resource.CheckResult // without a health before the first check
	streak int                  // results in a row that would change the health
}

// begin returns the track of a check, from its stored result.
func begin(c *resource.Check, results []resource.CheckResult) track {
	t := track{check: c, result: resource.CheckResult{Name: c.Title()}}
	if i := slices.IndexFunc(results, func(r resource.CheckResult) bool { return r.Name == c.Title() }); i >= 0 {
		t.result = results[i]
	}
	return t
}

// note takes a result. changed reports whether the health is another now, and sure whether the result agrees with it.
// The first result counts at once.
func (t *track) note(health resource.Health, output string, now time.Time) (changed, sure bool) {
	failures, passes := t.check.Needed()
	needed := 1
	switch {
	case health == t.result.Health:
		t.streak = 0
		return false, true
	case t.result.Health == "":
	case health == resource.Critical:
		needed = failures
	case t.result.Health == resource.Critical:
		needed = passes
	}
	if t.streak++; t.streak < needed {
		return false, false
	}
	t.streak = 0
	t.result.Health, t.result.Output, t.result.Since = health, output, now.UTC().Round(0)
	return true, true
}
