package draft

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"dyno/cli/imports/correlate"
	"dyno/internal/lazyregexp"
	"dyno/load/scenario"
)

// A Recorded is a request, and the response that it got when it was recorded.
type Recorded struct {
	Request
	Kind     string // the content type of the response; empty: not known
	Response correlate.Response
}

var (
	staticKind = lazyregexp.New(`^(?:image|audio|video)/|^text/css|javascript|font|wasm`)
	otherKind  = lazyregexp.New(`html|json|xml`)
	staticFile = lazyregexp.New(`(?i)^\.(?:m?js|css|map|png|jpe?g|gif|svg|webp|avif|ico|bmp|woff2?|ttf|otf|eot|mp[34]|webm|ogg|wav|wasm)$`)
)

// isStatic tells whether a response is a file such as an image, a style sheet or a script: by its content type, or else by
// its URL.
func (r *Recorded) isStatic() bool {
	file, _, _ := strings.Cut(withoutFragment(r.URL), "?")
	return staticKind().MatchString(r.Kind) || !otherKind().MatchString(r.Kind) && staticFile().MatchString(path.Ext(file))
}

// AddRecorded adds the steps of a recording. What a response gave, and later requests sent, is taken from the response.
// added gets the number of each request whose step there is.
func (d *Draft) AddRecorded(all []Recorded, added func(i int, step *scenario.Step)) {
	var numbers []int // of those that are kept
	var kept []correlate.Exchange
	others := map[string][]int{} // the lines of those that are left out, by the reason
	for i := range all {
		r := &all[i]
		isStatic := r.isStatic()
		if host := d.otherHost(r.URL); host != "" {
			others["requests to "+host] = append(others["requests to "+host], r.Line)
			continue
		} else if isStatic && d.Source.NoStatic {
			others["static files"] = append(others["static files"], r.Line)
			continue
		}
		e := correlate.Exchange{URL: r.URL, Header: r.Headers, Body: string(r.Body), Response: r.Response}
		if isStatic {
			e.Response.Body = "" // all clients get the same file
		}
		numbers, kept = append(numbers, i), append(kept, e)
	}
	for _, what := range slices.Sorted(maps.Keys(others)) {
		why, hint := fmt.Sprintf("%d are left out", len(others[what])), ""
		if what != "static files" {
			why, hint = why+": a run loads one server, "+d.Origin, "import them by themselves, or name one server for all hosts by --url"
		}
		d.Leave(others[what][0], what, why, hint)
	}
	var found []correlate.Correlation
	if !d.Source.NoCorrelate {
		d.Scenario.Cookies = true
		correlate.KeepCookies(kept)
		found = correlate.Find(kept, d.newName, d.Mark)
	}
	for k, e := range kept {
		r := all[numbers[k]].Request
		r.URL, r.Headers, r.Body = e.URL, e.Header, []byte(e.Body)
		step := d.AddRequest(r)
		if step == nil {
			continue
		}
		for ; len(found) > 0 && found[0].Source <= k; found = found[1:] {
			if c := &found[0]; c.Source == k {
				d.Extract(step, c.From)
				if room := 2 * len(e.Response.Body); c.From.Header == "" && room > scenario.DefaultMaxBody {
					step.MaxBody = room
				}
				d.Leave(r.Line, c.From.Variable, "it is taken from "+cmp.Or(c.From.JSON, c.From.Header, "the content")+" of step "+step.Name, fmt.Sprintf("later requests send it: %d (%s)", c.Requests, clip(strings.Join(c.Where, ", "))))
			}
		}
		added(numbers[k], step)
	}
}
