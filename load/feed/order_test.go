package feed

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"dyno/load/pace"

	"pgregory.net/rapid"
)

// checkPermutation fails unless p is an order of n numbers.
func checkPermutation(t interface{ Fatalf(string, ...any) }, n, seed uint64) []uint64 {
	p := newPermutation(n, seed)
	out := make([]uint64, n)
	seen := make([]bool, n)
	for i := range n {
		at := p.at(i)
		if at >= n || seen[at] {
			t.Fatalf("%d numbers, seed %d: %d at place %d: beyond the end, or the second time", n, seed, at, i)
		}
		out[i], seen[at] = at, true
	}
	return out
}

func TestShuffledIsAPermutation(t *testing.T) {
	for n := range uint64(600) {
		for seed := range uint64(3) {
			checkPermutation(t, n+1, seed)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		checkPermutation(t, rapid.Uint64Range(1, 200_000).Draw(t, "n"), rapid.Uint64().Draw(t, "seed"))
	})
}

// Each order of four rows is about equally likely: chi-squared with 23 degrees of
// freedom, at the 0.1 % level with fixed seeds.
func TestShuffledOrdersAreEquallyLikely(t *testing.T) {
	const seeds = 24_000
	counts := map[string]int{}
	for seed := range uint64(seeds) {
		counts[fmt.Sprint(checkPermutation(t, 4, pace.Mix(seed)))]++
	}
	var chi float64
	for _, n := range counts {
		chi += (float64(n) - seeds/24) * (float64(n) - seeds/24) / (seeds / 24)
	}
	if len(counts) != 24 || chi > 49.7 {
		t.Errorf("%d orders of 24, chi-squared %.1f", len(counts), chi)
	}
}

// numbered writes a table of n rows that say their number.
func numbered(tb testing.TB, n int) string {
	var b strings.Builder
	b.WriteString("n\n")
	for i := range n {
		fmt.Fprintln(&b, i)
	}
	return write(tb, "n.csv", b.String())
}

// take returns the numbers of up to most rows.
func take(c *Cursor, most int) (numbers []int) {
	for len(numbers) < most {
		row, ok := c.Next()
		if !ok {
			break
		}
		if string(row.Append(nil, 0)) != fmt.Sprint(row.Number()) {
			panic("a row says another number")
		}
		numbers = append(numbers, row.Number())
	}
	return numbers
}

// The shards' rows, dealt out in turn, make up the whole, pass after pass: with Sequential and Shuffled
// each row exactly once a pass.
func TestShardsShareTheRowsOut(t *testing.T) {
	tables := map[int]*Table{}
	for _, n := range []int{1, 2, 3, 7, 50, 97} {
		tables[n] = mustOpen(t, numbered(t, n), Options{}, maxKept)
	}
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.SampledFrom([]int{1, 2, 3, 7, 50, 97}).Draw(t, "rows")
		table := tables[n]
		order := rapid.SampledFrom([]Order{Sequential, Shuffled, Random}).Draw(t, "order")
		seed := rapid.Uint64().Draw(t, "seed")
		shards := rapid.IntRange(1, 120).Draw(t, "shards")
		passes := rapid.IntRange(1, 3).Draw(t, "passes")
		end := Stop
		if passes > 1 {
			end = Wrap
		}
		got := make([]int, passes*n)
		for i := range shards {
			c := table.Cursor(pace.Shard{Index: i, Count: shards}, order, seed, end)
			for p := i; p < passes*n; p += shards {
				if one := take(c, 1); len(one) == 1 {
					got[p] = one[0]
				} else {
					t.Fatalf("shard %d of %d ends at position %d: %v", i, shards, p, c.Err())
				}
			}
			if rest := take(c, 1); end == Stop && len(rest) > 0 {
				t.Fatalf("shard %d of %d goes on with %v", i, shards, rest)
			}
		}
		if want := take(table.Cursor(pace.Whole(), order, seed, end), passes*n); !slices.Equal(got, want) {
			t.Fatalf("%v from %d shards, %v from one", got, shards, want)
		}
		if order == Random {
			return
		}
		for p := range passes {
			pass := slices.Sorted(slices.Values(got[p*n : (p+1)*n]))
			for i, row := range pass {
				if i != row {
					t.Fatalf("pass %d: row %d is missing or there twice", p, i)
				}
			}
		}
	})
}

func TestOrders(t *testing.T) {
	const n = 1000
	table := mustOpen(t, numbered(t, n), Options{}, maxKept)
	first := func(order Order, seed uint64) []int { return take(table.Cursor(pace.Whole(), order, seed, Wrap), 3*n) }

	for i, row := range first(Sequential, 1) {
		if row != i%n {
			t.Fatalf("row %d at position %d", row, i)
		}
	}
	for _, order := range []Order{Shuffled, Random} {
		a := first(order, 1)
		if !slices.Equal(a, first(order, 1)) {
			t.Errorf("%v: one seed, two orders", order)
		}
		if slices.Equal(a, first(order, 2)) {
			t.Errorf("%v: two seeds, one order", order)
		}
		if slices.Equal(a[:n], a[n:2*n]) {
			t.Errorf("%v: two passes in the same order", order)
		}
	}
	// About n/e of n rows are never drawn with replacement: within four standard deviations.
	drawn := map[int]bool{}
	for _, row := range first(Random, 3)[:n] {
		drawn[row] = true
	}
	if missing := float64(n - len(drawn)); math.Abs(missing-n/math.E) > 4*9.8 {
		t.Errorf("%v of %d rows never drawn, want about %.0f", missing, n, n/math.E)
	}
}
