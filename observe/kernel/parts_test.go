package kernel

import (
	"math"
	"math/bits"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"dyno/host/proc"
)

// perfOnly observes by perf events, as New does where eBPF cannot work.
func perfOnly(cfg Config) (*Observer, error) { return newCounts(cfg) }

// bucket returns the bucket in which the kernel counts a wait of ns; tracer.c does the
// same.
func bucket(ns uint64) int {
	if ns < subBuckets {
		return int(ns)
	}
	exponent := bits.Len64(ns) - 1
	return (exponent-subBits)<<subBits + int(ns>>(exponent-subBits))
}

// Every wait lies in its bucket, and a bucket is no wider than it says.
func TestBuckets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ns := rapid.Uint64().Draw(t, "ns") >> rapid.IntRange(0, 63).Draw(t, "shift")
		b := bucket(ns)
		low, width := edges(b)
		if b < 0 || b >= buckets || float64(ns) < low || float64(ns) > low+width {
			t.Errorf("%d ns is in bucket %d: %v + %v", ns, b, low, width)
		}
		if width > 1 && width > low/subBuckets {
			t.Errorf("bucket %d from %v is %v wide", b, low, width)
		}
		if ns < math.MaxUint64 && bucket(ns+1) < b {
			t.Errorf("%d ns is in bucket %d, and one more in %d", ns, b, bucket(ns+1))
		}
	})
	if b := bucket(math.MaxUint64); b != buckets-1 {
		t.Errorf("the longest wait is in bucket %d of %d", b, buckets)
	}
}

// script is a source that has waits of the given nanoseconds, reading by reading.
type script struct{ waits [][]uint64 }

func (s *script) read(r *reading) error {
	*r = reading{}
	for _, ns := range s.waits[0] {
		r.Buckets[bucket(ns)]++
	}
	s.waits = s.waits[1:]
	return nil
}

func (s *script) close() error { return nil }

// A percentile between two readings excludes what was before the first. It is not the largest of those
// between readings on the way.
func TestWaitsBetweenReadings(t *testing.T) {
	many := func(n int, ns uint64) []uint64 { return slices.Repeat([]uint64{ns}, n) }
	early := many(1000, 1<<30)
	calm := slices.Concat(early, many(990, 10))
	o := newObserver(Config{Name: "kernel", RunQueue: true}, "test", &script{[][]uint64{early, calm, slices.Concat(calm, many(10, 15))}}, waitTimes, nil)
	var at []*Waits
	for range 3 {
		if err := o.Observe(make([]float64, len(o.columns))); err != nil {
			t.Fatal(err)
		}
		at = append(at, o.Waits())
	}
	if got := at[2].Since(at[0], 0.99); got != 11e-9 { // the end of its bucket
		t.Errorf("p99 %v, want 11 ns", got)
	}
	if got := at[2].Since(at[1], 0.99); got <= 15e-9 || got > 16e-9 {
		t.Errorf("p99 of the last %v, want that of 15 ns", got)
	}
	o.has = 0
	if o.Waits() != nil || !math.IsNaN(at[1].Since(at[1], 0.99)) || !math.IsNaN(at[1].Since(nil, 0.99)) || !math.IsNaN((*Waits)(nil).Since(at[0], 0.99)) {
		t.Error("a percentile of nothing")
	}
}

// A percentile is within a bucket's width of the exact one.
func TestQuantile(t *testing.T) {
	if q := quantile(&[buckets]uint64{}, 0.5); !math.IsNaN(q) {
		t.Errorf("of nothing: %v", q)
	}
	rapid.Check(t, func(t *rapid.T) {
		waits := rapid.SliceOfN(rapid.Uint64Max(1<<40), 1, 100).Draw(t, "waits")
		q := rapid.Float64Range(0, 1).Draw(t, "q")
		var counts [buckets]uint64
		for _, w := range waits {
			counts[bucket(w)]++
		}
		slices.Sort(waits)
		exact := float64(waits[max(1, int(math.Ceil(q*float64(len(waits)))))-1])
		if got := quantile(&counts, q) * 1e9; math.Abs(got-exact) > 1.000001+exact/subBuckets {
			t.Errorf("quantile %v of %v: %v; want %v", q, waits, got, exact)
		}
	})
}

func TestBelow(t *testing.T) {
	p := func(pid, parent int) proc.Process { return proc.Process{PID: pid, Parent: parent} }
	for _, tt := range []struct {
		name    string
		all     []proc.Process
		known   []int
		found   []int
		settled bool
	}{
		{"children and theirs", []proc.Process{p(1, 0), p(2, 1), p(10, 1), p(11, 10), p(12, 11), p(13, 2)}, nil, []int{11, 12}, true},
		{"none", []proc.Process{p(1, 0), p(10, 1)}, nil, nil, true},
		{"a parent that died while we looked", []proc.Process{p(1, 0), p(10, 1), p(12, 11)}, nil, nil, false},
		{"a known parent that died", []proc.Process{p(1, 0), p(10, 1), p(12, 11)}, []int{11}, []int{12}, true},
		{"known and elsewhere now", []proc.Process{p(1, 0), p(10, 1), p(12, 1), p(13, 12)}, []int{12}, []int{12, 13}, true},
		{"a circle", []proc.Process{p(10, 11), p(11, 10)}, nil, []int{11}, true},
	} {
		known := make(map[int]bool)
		for _, pid := range tt.known {
			known[pid] = true
		}
		found, settled := below(tt.all, 10, known)
		slices.Sort(found)
		if !slices.Equal(found, tt.found) || settled != tt.settled {
			t.Errorf("%s: %v, settled %v", tt.name, found, settled)
		}
	}
}

func TestColumns(t *testing.T) {
	names := callNames()
	seen := make(map[string]bool)
	for _, c := range columns(&names) {
		if seen[c.Name] {
			t.Errorf("%s: twice", c.Name)
		}
		seen[c.Name] = true
		if c.Help == "" || !strings.HasSuffix(c.Name, "_total") && !strings.HasSuffix(c.Name, "_seconds") || c.of == 0 {
			t.Errorf("%+v", c.Column)
		}
	}
	if len(seen) != 36 {
		t.Errorf("%d columns", len(seen))
	}
}
