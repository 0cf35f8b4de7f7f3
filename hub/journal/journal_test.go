package journal

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"dyno/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

func open(t testing.TB, c Config) *Journal {
	t.Helper()
	j, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func bounded(events int) Config {
	c := Defaults()
	c.Events, c.Epoch = events, "e"
	return c
}

func update(data string) Update { return Update{Topics: []string{"t"}, Data: []byte(data)} }

func add(t testing.TB, j *Journal, u Update) *Entry {
	t.Helper()
	e, err := j.Append(u)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		u    Update
		want string
	}{
		{Update{}, "topic: must be given"},
		{Update{Topics: []string{"a", ""}}, `topic: "": must be UTF-8 and not empty`},
		{Update{Topics: []string{"a"}, ID: "a\nb"}, `id: "a\nb"`},
		{Update{Topics: []string{"a"}, ID: "a\x00"}, `id: "a\x00"`},
		{Update{Topics: []string{"a"}, ID: "#a"}, `id: "#a"`},
		{Update{Topics: []string{"a"}, ID: "a\x01"}, `id: "a\x01": must not contain control characters`},
		{Update{Topics: []string{"a"}, ID: "a\t"}, `id: "a\t"`},
		{Update{Topics: []string{"a"}, ID: " "}, `id: " ": must not begin or end with a space`},
		{Update{Topics: []string{"a"}, ID: strings.Repeat("a", maxID+1)}, "id: 1025 bytes: must be 1024 at most"},
		{Update{Topics: []string{"a"}, ID: Earliest}, `id: "earliest": is reserved`},
		{Update{Topics: []string{"a"}, ID: " earliest"}, `id: " earliest"`},
		{Update{Topics: []string{"a"}, ID: Scheme}, `id: "dyno:": must not begin with dyno:`},
		{Update{Topics: []string{"a"}, ID: Scheme + "another-99"}, `id: "dyno:another-99"`},
		{Update{Topics: []string{"a"}, Type: "a\rb"}, `type: "a\rb"`},
		{Update{Topics: []string{"a"}, Retry: -1}, "retry: -1ns"},
		{Update{Topics: []string{"a"}, Retry: time.Microsecond}, "retry: 1µs"},
		{Update{Topics: []string{"a"}, Data: []byte{0xff}}, "data: must be UTF-8"},
		{Update{Topics: []string{"a"}, ID: "\xff"}, "must be UTF-8"},
	} {
		_, err := open(t, Defaults()).Append(c.u)
		if !errors.Is(err, ErrUpdate) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: got %v, want %s", c.u, err, c.want)
		}
	}
}

func TestFrame(t *testing.T) {
	for _, c := range []struct {
		u    Update
		want string
	}{
		{Update{ID: "1", Data: []byte("a")}, "id: 1\ndata: a\n\n"},
		{Update{ID: "1"}, "id: 1\ndata: \n\n"},
		{Update{ID: "1", Type: "x", Retry: 1500 * time.Millisecond, Data: []byte(" a")}, "id: 1\nevent: x\nretry: 1500\ndata:  a\n\n"},
		{Update{ID: "1", Data: []byte("a\nb\r\nc\rd\r\n")}, "id: 1\ndata: a\ndata: b\ndata: c\ndata: d\ndata: \n\n"},
	} {
		if got := string(AppendFrame(nil, &c.u)); got != c.want {
			t.Errorf("%+v: got %q, want %q", c.u, got, c.want)
		}
		c.u.Topics = []string{"t"}
		data := string(c.u.Data)
		e := add(t, open(t, Defaults()), c.u)
		if string(e.Frame) != c.want || string(e.Data) != data {
			t.Errorf("entry of %+v: frame %q, data %q", c.u, e.Frame, e.Data)
		}
		if len(c.u.Data) > 0 {
			c.u.Data[0] = 'X'
			if string(e.Data) != data {
				t.Errorf("the entry shares the publisher's data %q", data)
			}
		}
	}
}

func TestGapFrame(t *testing.T) {
	for _, c := range []struct {
		g    Gap
		want string
	}{
		{Gap{From: 3, To: 7, Missed: 2}, `{"from":3,"to":7,"missed":2}`},
		{Gap{From: 3, To: 7, Missed: -1}, `{"from":3,"to":7,"missed":null}`},
		{Gap{Missed: -1}, `{"from":null,"to":null,"missed":null}`},
	} {
		want := "event: gap\ndata: " + c.want + "\n\n"
		if diff := cmp.Diff(want, string(AppendGap(nil, c.g))); diff != "" {
			t.Error(diff)
		}
	}
}

func TestSeek(t *testing.T) {
	j := open(t, bounded(3))
	for i := range 4 { // 1 is gone
		u := update("")
		if i == 2 {
			u.ID = "mine"
		}
		add(t, j, u)
	}
	for _, c := range []struct {
		id    string
		seq   uint64
		found bool
	}{
		{"dyno:e-1", 1, true}, {"dyno:e-2", 2, true}, {"mine", 3, true}, {"dyno:e-4", 4, true},
		{"dyno:e-5", 0, false}, {"dyno:f-1", 0, false}, {"dyno:e-0", 0, false}, {"dyno:e-01", 0, false},
		{"dyno:e-", 0, false}, {"dyno:e--1", 0, false}, {"", 0, false}, {"other", 0, false},
	} {
		if seq, found := j.Seek(c.id); seq != c.seq || found != c.found {
			t.Errorf("%q: %d, %v", c.id, seq, found)
		}
	}
	twice := update("")
	twice.ID = "mine"
	add(t, j, twice)
	if seq, _ := j.Seek("mine"); seq != 3 {
		t.Errorf("an ID given twice is at %d, want the older", seq)
	}
	add(t, j, update(""))
	if seq, found := j.Seek("mine"); found {
		t.Errorf("found the ID of an entry that is gone, at %d", seq)
	}
}

func TestBounds(t *testing.T) {
	t.Run("events", func(t *testing.T) {
		j := open(t, bounded(1))
		add(t, j, update("a"))
		add(t, j, update("b"))
		got, oldest := j.Since(0, nil, 10)
		if len(got) != 1 || string(got[0].Data) != "b" || oldest != 2 {
			t.Errorf("%v, oldest %d", got, oldest)
		}
	})
	t.Run("bytes", func(t *testing.T) {
		c := bounded(100)
		c.Bytes = 2000
		j := open(t, c)
		for range 10 {
			add(t, j, update(strings.Repeat("x", 400)))
		}
		if n := j.Head() - j.Oldest() + 1; n != 2 {
			t.Errorf("holds %d of 10", n)
		}
		if _, err := j.Append(update(strings.Repeat("x", 2000))); !errors.Is(err, ErrUpdate) {
			t.Errorf("an update larger than everything: %v", err)
		}
		if n := j.Head() - j.Oldest() + 1; n != 2 {
			t.Errorf("what was refused cost entries: %d are left", n)
		}
	})
	t.Run("age", func(t *testing.T) {
		c := bounded(100)
		c.Age = time.Minute
		j := open(t, c)
		start := time.Now()
		for i := range 3 {
			if _, err := j.AppendAt(start.Add(time.Duration(i)*time.Minute), update("")); err != nil {
				t.Fatal(err)
			}
		}
		if j.Oldest() != 2 {
			t.Errorf("appending left %d the oldest, want 2", j.Oldest())
		}
		j.Expire(start.Add(time.Hour))
		if j.Oldest() != 4 || j.Head() != 3 {
			t.Errorf("oldest %d, head %d", j.Oldest(), j.Head())
		}
		if got, oldest := j.Since(1, nil, 10); len(got) != 0 || oldest != 4 {
			t.Errorf("%v, oldest %d", got, oldest)
		}
	})
}

func TestNotifyStops(t *testing.T) {
	j := open(t, bounded(10))
	var a, b int
	stopA := j.Notify(func() { a++ })
	stopB := j.Notify(func() { b++ })
	add(t, j, update(""))
	stopA()
	add(t, j, update(""))
	stopB()
	add(t, j, update(""))
	if a != 1 || b != 2 {
		t.Errorf("notified %d and %d times", a, b)
	}
}

// TestCheckBounds: an update that Check accepts fits, so that a log may write it
// elsewhere before the journal has it.
func TestCheckBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		u := Update{
			Topics: rapid.SliceOfN(rapid.StringMatching(`[a-z]{1,20}`), 1, 3).Draw(t, "topics"),
			ID:     rapid.StringMatching(`[a-z]{0,20}`).Draw(t, "id"),
			Type:   rapid.StringMatching(`[a-z]{0,20}`).Draw(t, "type"),
			Data:   []byte(rapid.StringMatching(`[a\r\n]{0,100}`).Draw(t, "data")),
			Retry:  time.Duration(rapid.Int64Range(0, maxRetryMillis).Draw(t, "retry")) * time.Millisecond,
		}
		c := Defaults()
		c.Epoch = strings.Repeat("e", maxEpoch)
		c.Head = rapid.Uint64Range(0, 1<<63).Draw(t, "head")
		j, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		e, err := j.Append(u)
		if err != nil {
			t.Fatal(err)
		}
		if e.size() > u.bound() {
			t.Fatalf("takes %d, bound %d", e.size(), u.bound())
		}
	})
}

// TestModel compares a journal with a list that forgets nothing.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := bounded(rapid.IntRange(1, 20).Draw(t, "events"))
		c.Head = rapid.Uint64Range(0, 100).Draw(t, "head")
		j, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		all := map[uint64]*Entry{}
		seq := c.Head
		t.Repeat(map[string]func(*rapid.T){
			"append": func(t *rapid.T) {
				e, err := j.Append(update(rapid.StringMatching(`[a-z\n]{0,5}`).Draw(t, "data")))
				if err != nil {
					t.Fatal(err)
				}
				seq++
				if e.Seq != seq {
					t.Fatalf("entry %d, want %d", e.Seq, seq)
				}
				all[seq] = e
			},
			"break": func(*rapid.T) { j.Break(); clear(all); seq++ },
			"read": func(t *rapid.T) {
				from := rapid.Uint64Range(0, seq+2).Draw(t, "from")
				limit := rapid.IntRange(0, 25).Draw(t, "limit")
				got, oldest := j.Since(from, nil, limit)
				want := []*Entry(nil)
				for s := max(from+1, seq+1-min(uint64(c.Events), uint64(len(all)))); s <= seq && len(want) < limit; s++ {
					want = append(want, all[s])
				}
				if len(got) != len(want) {
					t.Fatalf("since %d: %d entries, want %d", from, len(got), len(want))
				}
				for i := range got {
					if got[i] != want[i] {
						t.Fatalf("since %d: entry %d is %d, want %d", from, i, got[i].Seq, want[i].Seq)
					}
				}
				if len(got) > 0 && got[0].Seq != max(from+1, oldest) {
					t.Fatalf("since %d: begins with %d although the oldest is %d", from, got[0].Seq, oldest)
				}
			},
		})
	})
}

// TestReaders runs readers of all speeds together with writers and trimming: each gets
// every entry once and in order, or learns which are gone.
func TestReaders(t *testing.T) {
	const writers, each, readers = 4, 2000, 8
	j := open(t, bounded(2)) // so small that writers overtake readers in the middle of a read
	var work, reading sync.WaitGroup
	var gaps atomic.Int64
	for r := range readers {
		wake := make(chan struct{}, 1)
		stop := j.Notify(func() {
			select {
			case wake <- struct{}{}:
			default:
			}
		})
		reading.Go(func() {
			defer stop()
			var cursor, total uint64
			var buf []*Entry
			for cursor < writers*each {
				var oldest uint64
				buf, oldest = j.Since(cursor, buf[:0], 1+r*8)
				if oldest > cursor+1 {
					gaps.Add(1)
					cursor = oldest - 1
					total = 0
				}
				for _, e := range buf {
					if e.Seq != cursor+1 {
						t.Errorf("reader %d: %d after %d", r, e.Seq, cursor)
						return
					}
					if total != 0 && e.Total != total+uint64(len(e.Frame)) {
						t.Errorf("reader %d: total %d after %d", r, e.Total, total)
					}
					cursor, total = e.Seq, e.Total
				}
				if len(buf) == 0 && cursor < writers*each {
					<-wake
				}
			}
		})
	}
	for w := range writers {
		work.Go(func() {
			for i := range each {
				if _, err := j.Append(update(fmt.Sprint(w, " ", i))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	work.Wait()
	reading.Wait()
	t.Logf("%d gaps", gaps.Load())
}

// TestAppendAs: an ID from outside takes the place of the journal's own, and not that of a publisher's.
func TestAppendAs(t *testing.T) {
	j := open(t, Defaults())
	for want, chosen := range map[string]string{"dyno:7-0": "", "mine": "mine"} {
		e, err := j.AppendAs("dyno:7-0", Update{ID: chosen, Topics: []string{"a"}})
		if err != nil || e.ID != want {
			t.Fatalf("chosen %q: %+v, %v", chosen, e, err)
		}
		if seq, found := j.Seek(want); !found || seq != e.Seq {
			t.Errorf("%s is at %d, %v; want %d", want, seq, found, e.Seq)
		}
	}
	if _, err := j.AppendAs("dyno:8-0", Update{ID: "dyno:7-0", Topics: []string{"a"}}); !errors.Is(err, ErrUpdate) {
		t.Errorf("a publisher chose a hub's ID: %v", err)
	}
}

// TestRecordWithAReservedID: what earlier versions took from publishers can be read, without its ID.
func TestRecordWithAReservedID(t *testing.T) {
	for _, id := range []string{Earliest, Scheme + "x-1", strings.Repeat("a", maxID+1)} {
		text, err := EncodeRecord(time.Unix(1, 0), Update{ID: id, Topics: []string{"a"}, Data: []byte("b")})
		if err != nil {
			t.Fatal(err)
		}
		if _, u, err := DecodeRecord(text); err != nil || u.ID != "" || string(u.Data) != "b" {
			t.Errorf("%.20s: %+v, %v", id, u, err)
		}
	}
}
