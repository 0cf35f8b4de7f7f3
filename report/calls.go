package report

import (
	"fmt"

	"dyno/report/figure"
	"dyno/report/layout"
	"dyno/results/rundir"
)

// calls writes which system calls the targets made for each request.
func (p *page) calls(variants []rundir.Variant) {
	calls := p.Calls()
	if calls == nil {
		return
	}
	title := "system calls per " + p.Per() + ", by name"
	if n := len(calls.Most); n < calls.All {
		title += fmt.Sprintf(": the %d most frequent of %d", n, calls.All)
	}
	p.Section(title)
	t := layout.Table{Head: []string{""}}
	for _, v := range variants {
		t.Head = append(t.Head, v.Name)
	}
	for _, c := range calls.Most {
		row := []string{c.Name}
		for _, v := range variants {
			cell := figure.Unknown
			if n, ok := c.PerRequest[v.Name]; ok {
				cell = figure.Counts().Write(n)
			}
			row = append(row, cell)
		}
		t.Add(row...)
	}
	p.Table(t)
}
