package judged

import (
	"cmp"
	"slices"
	"strings"

	"dyno/results/rundir"
)

// A Slow is one of a run's slowest requests.
type Slow struct {
	Variant string      `json:"variant"`
	Trial   int         `json:"trial"`
	Request rundir.Slow `json:"request"`
	URL     string      `json:"url,omitempty"` // of its trace
}

// mostSlow is how many of the slowest requests are shown of a run.
const mostSlow = 10

// Slowest are the slowest requests that have a trace id, of all trials that count.
func (r *Result) Slowest() (list []Slow) {
	for _, t := range r.Folder.Measured() {
		for _, x := range t.Slowest {
			slow := Slow{Variant: t.Variant, Trial: t.Number, Request: x}
			if url := r.Run.Plan.Variant(t.Variant).TraceURL; strings.HasPrefix(url, "http://") || strings.HasPrefix(url, "https://") {
				slow.URL = strings.ReplaceAll(url, "{id}", x.TraceID)
			}
			list = append(list, slow)
		}
	}
	slices.SortStableFunc(list, func(a, b Slow) int { return cmp.Compare(b.Request.Response, a.Request.Response) })
	return list[:min(len(list), mostSlow)]
}
