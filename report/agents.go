package report

import (
	"strings"

	"dyno/report/figure"
	"dyno/report/layout"
)

// agents writes what the agents that carried the load did, and how well their clocks and beginnings are known.
func (p *page) agents() {
	list := p.Agents()
	if len(list) == 0 {
		return
	}
	p.Section("agents: what each did; its clock, against dyno's; when it began, after the common start")
	t := layout.Table{Head: []string{"", "done", "CPU per " + p.Per(), "clock", "began", "flags"}, Left: []int{5}, Prose: true}
	for _, a := range list {
		cpu := figure.Unknown
		if a.Least != nil {
			cpu = extremes([]float64{*a.Least, *a.Most}, figure.Seconds)
		}
		within := " ± " + figure.Seconds(a.ClockError)
		t.Add(a.Name, figure.Percent(a.Share), cpu, figure.Deviation(a.ClockOffset)+within, figure.Deviation(a.StartDeviation)+within, strings.Join(a.Flags, ", "))
	}
	p.Table(t)
}
