package report

import (
	"slices"

	"dyno/report/figure"
	"dyno/report/layout"
)

// pods writes what each pod of the target used, in all trials together.
func (p *page) pods() {
	type pod struct {
		variant, name, node string
		seconds, window     float64
		memory              int64
	}
	var list []pod
	for _, t := range p.Folder.Measured() {
		for _, of := range t.Pods {
			if of.CPUSeconds == nil || of.MemoryBytes == nil || t.WindowSeconds <= 0 {
				continue
			}
			at := slices.IndexFunc(list, func(x pod) bool { return x.variant == t.Variant && x.name == of.Name })
			if at < 0 {
				at = len(list)
				list = append(list, pod{variant: t.Variant, name: of.Name, node: of.Node})
			}
			x := &list[at]
			x.seconds, x.window, x.memory = x.seconds+*of.CPUSeconds, x.window+t.WindowSeconds, max(x.memory, *of.MemoryBytes)
		}
	}
	if len(list) == 0 {
		return
	}
	p.Section("pods of the target: CPU time of each, and the most memory, page cache included")
	t := layout.Table{Head: []string{"", "CPUs", "memory", "node"}, Left: []int{3}}
	for _, x := range list {
		if len(p.Run.Variants) > 1 {
			x.name = x.variant + ": " + x.name
		}
		t.Add(x.name, figure.Count(x.seconds/x.window), figure.Sizes().Write(float64(x.memory)), x.node)
	}
	p.Table(t)
}
