package draft

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"dyno/cli/imports/correlate"
	"dyno/internal/lazyregexp"
	"dyno/load/scenario"
)

// A Recorded is a request, and the response that it got when it was recorded.
type Recorded struct {
	Request
	Kind     string // the content type of the response; empty: not known
	Status   int    // 0: not known
	Began    time.Time
	Took     time.Duration
	Response correlate.Response
	Takes    []correlate.Correlation // what later requests send of the response
}

var (
	staticKind = lazyregexp.New(`^(?:image|audio|video)/|^text/css|javascript|font|wasm`)
	otherKind  = lazyregexp.New(`html|json|xml`)
	staticFile = lazyregexp.New(`(?i)^\.(?:m?js|css|map|png|jpe?g|gif|svg|webp|avif|ico|bmp|woff2?|ttf|otf|eot|mp[34]|webm|ogg|wav|wasm)$`)
)

// IsStatic tells whether a response is a file such as an image, a style sheet or a script: by its content type, or else by
// its URL.
func (r *Recorded) IsStatic() bool {
	file, _, _ := strings.Cut(withoutFragment(r.URL), "?")
	return staticKind().MatchString(r.Kind) || !otherKind().MatchString(r.Kind) && staticFile().MatchString(path.Ext(file))
}

// AddRecorded adds the steps of a recording. What a response gave, and later requests sent, is taken from the response.
// added gets the number of each request whose step there is.
func (d *Draft) AddRecorded(all []Recorded, added func(i int, step *scenario.Step)) {
	var numbers []int // of those that are kept
	var kept []*Recorded
	others := map[string][]int{} // the lines of those that are left out, by the reason
	for i := range all {
		r := &all[i]
		if host := d.otherHost(r.URL); host != "" {
			others["requests to "+host] = append(others["requests to "+host], r.Line)
		} else if d.Source.NoStatic && r.IsStatic() {
			others["static files"] = append(others["static files"], r.Line)
		} else {
			numbers, kept = append(numbers, i), append(kept, r)
		}
	}
	for _, what := range slices.Sorted(maps.Keys(others)) {
		why, hint := fmt.Sprintf("%d are left out", len(others[what])), ""
		if what != "static files" {
			why, hint = why+": a run loads one server, "+d.Origin, "import them by themselves, or name one server for all hosts by --url"
		}
		d.Leave(others[what][0], what, why, hint)
	}
	if !d.Source.NoCorrelate {
		d.Scenario.Cookies = true
		d.Correlate(kept)
	}
	for k, r := range kept {
		if step := d.AddRequest(r.Request); step != nil {
			d.Replay(step, r)
			added(numbers[k], step)
		}
	}
}

// Correlate puts variables in the place of values that earlier responses gave, and cookies that users keep out of requests.
// Requests to other hosts than the first one are not looked at.
func (d *Draft) Correlate(all []*Recorded) {
	all = slices.DeleteFunc(slices.Clone(all), func(r *Recorded) bool { return d.otherHost(r.URL) != "" })
	exchanges := make([]correlate.Exchange, len(all))
	for i, r := range all {
		exchanges[i] = correlate.Exchange{URL: r.URL, Header: r.Headers, Body: string(r.Body), Response: r.Response}
		if r.IsStatic() {
			exchanges[i].Response.Body = "" // all clients get the same file
		}
	}
	if d.Scenario.Cookies {
		correlate.KeepCookies(exchanges)
	}
	for _, c := range correlate.Find(exchanges, d.newName, d.Mark) {
		all[c.Source].Takes = append(all[c.Source].Takes, c)
	}
	for i, e := range exchanges {
		all[i].URL, all[i].Headers, all[i].Body = e.URL, e.Header, []byte(e.Body)
	}
}

// Replay gives the last step what was recorded of its request: what later requests send of the response, a status that would
// be a failure otherwise, and the pause before it.
func (d *Draft) Replay(step *scenario.Step, r *Recorded) {
	for _, c := range r.Takes {
		d.Extract(step, c.From)
		if room := 2 * len(r.Response.Body); c.From.Header == "" && room > scenario.DefaultMaxBody {
			step.MaxBody = room
		}
		d.Leave(r.Line, c.From.Variable, "it is taken from "+cmp.Or(c.From.JSON, c.From.Header, "the content")+" of step "+step.Name, fmt.Sprintf("later requests send it: %d (%s)", c.Requests, clip(strings.Join(c.Where, ", "))))
	}
	if r.Status >= 400 && r.Status <= 599 && step.Status == "" {
		step.Status = fmt.Sprint(r.Status)
	}
	if r.Began.IsZero() {
		return
	}
	const minThink = 100 * time.Millisecond // shorter pauses are the browser's own, as between the files of a page
	steps, until := d.Steps(), r.Began.Add(r.Took)
	switch pause := r.Began.Sub(d.recordedUntil).Round(time.Millisecond); {
	case d.recordedUntil.IsZero() || len(steps) == 1: // of a flow
		d.recordedUntil = until
	case pause >= minThink:
		steps[len(steps)-2].Think.Constant = min(pause, MaxThink)
	case pause < 0:
		if d.overlaps++; d.overlaps == 1 {
			d.overlap = r.Line
		}
	}
	if until.After(d.recordedUntil) {
		d.recordedUntil = until
	}
}
