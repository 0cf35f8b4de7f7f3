package imports

import (
	"cmp"
	"errors"
	"strings"
	"time"

	"dyno/cli/foreign"
	"dyno/internal/lazyregexp"
	"dyno/lab/plan"
)

// anyTarget is the beginning of a target that names its server.
var anyTarget = lazyregexp.New(`(?m)^\s*(?:[A-Z]+[ \t]+|\{.*"url"\s*:\s*")https?://`)

// readTargets reads targets, which are sent in turn.
func readTargets(d *draft, src []byte) error {
	base := "" // each target names the server
	if d.base != "" && !anyTarget().Match(src) {
		base = d.base
	}
	targets, lines, base, err := foreign.ReadSoundTargets(d.source.File, string(src), base, d.read, func(line int, what string, err error) {
		problem, hint, _ := strings.Cut(err.Error(), "; ")
		d.leave(line, what, problem, hint)
	})
	if err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), d.source.File+":")) // which the caller names, too
	}
	d.base = cmp.Or(d.base, base)
	d.scenario.InTurn = true
	for i, t := range targets {
		d.add(request{line: lines[i], name: t.Name(i + 1), method: t.Method, url: t.Path, headers: t.Headers, body: []byte(t.Body)})
	}
	// vegeta's defaults without flags; the file says only what is sent.
	l := d.load()
	l.Open = plan.DefaultOpen()
	l.Open.Rate, l.Window = 50, 10*time.Second
	d.leave(0, "load", "the file says what is sent, but not how often: 50 requests a second, vegeta's default, for 10 s", "load.open.rate and load.window are what -rate and -duration are for vegeta")
	return nil
}
