// Package vegeta imports targets of vegeta.
package vegeta

import (
	"cmp"
	"errors"
	"strings"
	"time"

	"dyno/cli/foreign"
	"dyno/cli/imports/draft"
	"dyno/internal/lazyregexp"
	"dyno/lab/plan"
)

// Format is the format of targets.
func Format() draft.Format {
	return draft.Format{Name: "vegeta", About: "targets of vegeta, in the format http or json", Most: draft.MaxRecord, Form: form, Read: read}
}

var form = lazyregexp.New(`\A(?:\s*#.*\n)*\s*(?:[A-Z]+[ \t]+https?://|\{"(?:method|url|body|header)"\s*:)`)

// anyTarget is the beginning of a target that names its server.
var anyTarget = lazyregexp.New(`(?m)^\s*(?:[A-Z]+[ \t]+|\{.*"url"\s*:\s*")https?://`)

// read reads targets, which are sent in turn.
func read(d *draft.Draft, src []byte) error {
	base := "" // each target names the server
	if d.Base != "" && !anyTarget().Match(src) {
		base = d.Base
	}
	targets, lines, base, err := foreign.ReadSoundTargets(d.Source.File, string(src), base, d.ReadFile, func(line int, what string, err error) {
		d.LeaveFault(line, what, err, "")
	})
	if err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), d.Source.File+":")) // which the caller names, too
	}
	d.Base = cmp.Or(d.Base, base)
	d.Scenario.InTurn = true
	for i, t := range targets {
		d.AddRequest(draft.Request{Line: lines[i], Name: t.Name(i + 1), Method: t.Method, URL: t.Path, Headers: t.Headers, Body: []byte(t.Body)})
	}
	// vegeta's defaults without flags; the file says only what is sent.
	l := d.Load()
	l.Open = plan.DefaultOpen()
	l.Open.Rate, l.Window = 50, 10*time.Second
	d.Leave(0, "load", "the file says what is sent, but not how often: 50 requests a second, vegeta's default, for 10 s", "load.open.rate and load.window are what -rate and -duration are for vegeta")
	return nil
}
