package report

import (
	"cmp"

	"dyno/report/figure"
	"dyno/report/layout"
)

// slowest writes the slowest requests with the ids of their traces.
func (p *page) slowest() {
	list := p.Slowest()
	if len(list) == 0 {
		return
	}
	p.Section("slowest requests, by their traces")
	t := layout.Table{Head: []string{"", "trial", "response", "service", "status", "trace"}, Left: []int{4, 5}, Prose: true}
	for _, x := range list {
		t.Add(x.Variant, figure.Whole(int64(x.Trial)), figure.Seconds(x.Request.Response), figure.Seconds(x.Request.Service), x.Request.Status, cmp.Or(x.URL, x.Request.TraceID))
	}
	p.Table(t)
}
