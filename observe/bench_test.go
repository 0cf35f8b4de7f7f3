package observe

import (
	"math"
	"testing"
)

func TestReadingAllocatesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: counts allocations")
	}
	c := role(t, "threads")
	c.line(t)
	tree := newTestTree(t, c.Process.Pid)
	m, err := NewMachine(tree)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	row, mrow := make([]float64, treeColumns), make([]float64, len(m.Columns()))
	_ = tree.Observe(row)
	// Another process of the machine may start and cause a look around, which
	// may allocate: the fewest of several runs counts.
	least := math.Inf(1)
	for range 20 {
		least = min(least, testing.AllocsPerRun(1, func() {
			_ = tree.Observe(row)
			_ = m.Observe(mrow)
		}))
	}
	if least != 0 {
		t.Errorf("%v allocations", least)
	}
}
