package observe

import (
	"os"
	"testing"
)

// What one tick costs: a process of several threads, and the machine.
func BenchmarkTick(b *testing.B) {
	tree, err := NewTree("target", os.Getpid())
	if err != nil {
		b.Fatal(err)
	}
	defer tree.Close()
	m, err := NewMachine(tree)
	if err != nil {
		b.Fatal(err)
	}
	defer m.Close()
	row, mrow := make([]float64, treeColumns), make([]float64, len(m.Columns()))
	b.ReportAllocs()
	for b.Loop() {
		_ = tree.Observe(row)
		_ = m.Observe(mrow)
	}
	b.ReportMetric(row[5], "threads")
}
