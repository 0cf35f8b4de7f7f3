package record

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// Copies of an interval are independent of each other.
func TestAddCountsToACopy(t *testing.T) {
	one := Interval{Measured: Outcomes{OK: 1}, Status: map[int]uint64{200: 1}}
	sum := one
	sum.AddCounts(&Interval{Measured: Outcomes{OK: 2}, Status: map[int]uint64{200: 2, 404: 3}})
	if diff := cmp.Diff(map[int]uint64{200: 3, 404: 3}, sum.Status); diff != "" || len(one.Status) != 1 || one.Status[200] != 1 {
		t.Errorf("sum %v, the first %v", sum.Status, one.Status)
	}
}

// Counts of two engines add up. Connections are added, too: an interval into which several of the
// other's fall has them once.
func TestMergeIntervals(t *testing.T) {
	of := func(start, length, completed, connections int) Interval {
		return Interval{
			Start: time.Duration(start) * time.Second, Length: time.Duration(length) * time.Second,
			Measured: Outcomes{OK: uint64(completed)}, Status: map[int]uint64{200: uint64(completed)}, Connections: connections,
		}
	}
	got := mergeIntervals([]Interval{of(0, 1, 10, 3), of(1, 2, 20, 3)},
		[]Interval{of(0, 1, 1, 5), of(1, 1, 2, 6), of(2, 1, 3, 7), of(3, 1, 4, 7)})
	want := []Interval{of(0, 1, 11, 8), of(1, 2, 25, 10), of(3, 1, 4, 7)}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(Interval{}, "Latency")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
