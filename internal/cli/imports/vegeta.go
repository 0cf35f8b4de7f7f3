package imports

import (
	"cmp"
	"errors"
	"strings"
	"time"

	"dyno/internal/cli/foreign"
	"dyno/lab/plan"
)

// readTargets reads targets, which are sent in turn. Of a fault the error says where it is.
func readTargets(d *draft, src []byte) error {
	targets, base, err := foreign.ReadTargets(d.source.File, string(src), "", d.read)
	if err != nil && d.base != "" { // there may be paths without a host
		targets, base, err = foreign.ReadTargets(d.source.File, string(src), d.base, d.read)
	}
	if err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), d.source.File+":")) // which the caller names, too
	}
	d.base = cmp.Or(d.base, base)
	d.scenario.InTurn = true
	for i, t := range targets {
		d.add(request{name: t.Name(i + 1), method: t.Method, url: t.Path, headers: t.Headers, body: []byte(t.Body)})
	}
	// What vegeta does without flags; the file says only what is sent.
	l := d.load()
	l.Open = plan.DefaultOpen()
	l.Open.Rate, l.Window = 50, 10*time.Second
	d.leave(0, "load", "the file says what is sent, but not how often: 50 requests a second, vegeta's default, for 10 s", "load.open.rate and load.window are what -rate and -duration are for vegeta")
	return nil
}
