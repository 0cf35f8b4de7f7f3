package http2

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"dyno/load/wire/wiretest"
)

func drawCuts(t *rapid.T, n int) []int {
	cuts := rapid.SliceOfN(rapid.IntRange(0, n), 0, 20).Draw(t, "cuts")
	slices.Sort(cuts)
	return cuts
}

// checkCuts compares a client's events for bytes in one piece and in several. It checks that the client
// holds no more than it may.
func checkCuts(tb wiretest.TB, input []byte, cuts []int) {
	tb.Helper()
	config := testConfig()
	config.MaxHeader = 1000
	run := func(cuts ...int) (*listener, string) {
		c := ready(tb, config)
		l := listen(tb, c)
		l.hear(input, cuts...)
		if held := cap(c.part) + cap(c.block.bytes) + cap(c.decoder.data); held > 100_000 {
			tb.Fatalf("%d bytes are held", held)
		}
		if len(c.out) > 20*len(input)+1000 {
			tb.Fatalf("%d bytes of output for %d of input", len(c.out), len(input))
		}
		output := strings.Join(describeFrames(tb, wiretest.Take(c)), "\n")
		l.end()
		l.endedOnce(3)
		return l, output
	}
	whole, says := run()
	cut, cutSays := run(cuts...)
	if diff := cmp.Diff(whole.lines, cut.lines); diff != "" {
		tb.Fatalf("%x cut at %v: whole -, cut +\n%s", input, cuts, diff)
	}
	if says != cutSays {
		tb.Fatalf("%x cut at %v: says\n%s\ncut:\n%s", input, cuts, says, cutSays)
	}
}

// Frames of any kinds, one after another, give the same events wherever they are cut.
func TestCutsChangeNothing(t *testing.T) {
	short := slices.DeleteFunc(slices.Clone(cases), func(c testCase) bool { return len(c.input) > 1000 })
	rapid.Check(t, func(t *rapid.T) {
		var input []byte
		for range rapid.IntRange(1, 6).Draw(t, "cases") {
			input = append(input, rapid.SampledFrom(short).Draw(t, "case").input...)
		}
		checkCuts(t, input, drawCuts(t, len(input)))
	})
}

// FuzzInput: no bytes make a client panic, take more than there is, stand still, or hold more than it
// may. Events do not depend on cuts.
func FuzzInput(f *testing.F) {
	for i, c := range cases {
		if len(c.input) < 1000 {
			f.Add(c.input, uint16(i), uint16(7*i))
		}
	}
	f.Add(join(open, data(1, 0, "x"), headers(1, endStream, "a", "b"), goAway(3, NoError), headers(3, endStream, ":status", "200")), uint16(9), uint16(30))
	f.Fuzz(func(t *testing.T, input []byte, a, b uint16) {
		cuts := []int{int(a) % (len(input) + 1), int(b) % (len(input) + 1)}
		slices.Sort(cuts)
		checkCuts(t, input, cuts)
		every := make([]int, len(input))
		for i := range every {
			every[i] = i
		}
		checkCuts(t, input, every)
	})
}

// Streams of any numbers are found, and those that were removed are not.
func TestStreamTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.IntRange(1, 40).Draw(t, "streams")
		table, streams := newStreamTable(most), make([]stream, most)
		known := map[uint32]int{}
		next := uint32(1)
		defer func() {
			if len(known) == 0 && (table.displaced != 0 || slices.Max(table.places) != 0) {
				t.Fatalf("an empty table: %v", table)
			}
		}()
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			id := rapid.IntRange(0, most-1).Draw(t, "id")
			if n := streams[id].number; n != 0 {
				table.remove(n, id)
				streams[id].number = 0
				delete(known, n)
			} else {
				next += 2 * uint32(rapid.IntRange(0, 70).Draw(t, "skipped"))
				streams[id].number = next
				known[next] = id
				table.add(next, id)
				next += 2
			}
			for n := max(1, next-301) | 1; n < next+4; n += 2 {
				want, ok := known[n]
				if !ok {
					want = -1
				}
				if got := table.find(streams, n); got != want {
					t.Fatalf("stream %d: %d, want %d", n, got, want)
				}
			}
			for n, want := range known {
				if got := table.find(streams, n); got != want {
					t.Fatalf("stream %d: %d, want %d", n, got, want)
				}
			}
		}
	})
}
