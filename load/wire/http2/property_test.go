package http2

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/http2/hpack"
	"pgregory.net/rapid"

	"dyno/load/wire/wiretest"
)

func drawCuts(t *rapid.T, n int) []int {
	cuts := rapid.SliceOfN(rapid.IntRange(0, n), 0, 20).Draw(t, "cuts")
	slices.Sort(cuts)
	return cuts
}

// A server draws frames that are in order, to all exchanges at once, and what the
// client must make of them.
type server struct {
	t       *rapid.T
	encoder *hpack.Encoder
	block   bytes.Buffer
	output  []byte
	want    []string // by the listener's rules
	windows map[uint32]int64
	all     int64
}

func (s *server) chance(percent int, what string) bool {
	return rapid.IntRange(1, 100).Draw(s.t, what) <= percent
}

// headers writes a header block in one frame or several, with or without padding and
// priority.
func (s *server) headers(number uint32, end bool, fields ...string) {
	s.block.Reset()
	for i := 0; i < len(fields); i += 2 {
		if err := s.encoder.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1], Sensitive: s.chance(5, "sensitive")}); err != nil {
			s.t.Fatal(err)
		}
	}
	block := s.block.Bytes()
	flags := uint8(0)
	if end {
		flags = flagEndStream
	}
	var before, behind []byte
	if s.chance(20, "padded") {
		flags |= flagPadded
		n := rapid.IntRange(0, 20).Draw(s.t, "padding")
		before, behind = []byte{byte(n)}, make([]byte, n)
	}
	if s.chance(20, "priority") {
		flags |= flagPriority
		before = append(before, 0, 0, 0, 1, 5)
	}
	kind := uint8(frameHeaders)
	for first := true; first || len(block) > 0; first = false {
		n := len(block)
		if s.chance(20, "continued") {
			n = rapid.IntRange(0, len(block)).Draw(s.t, "fragment")
		}
		if n == len(block) {
			flags |= flagEndHeaders
		}
		s.output = appendFrame(s.output, kind, flags, number, slices.Concat(before, block[:n], behind))
		if flags&flagEndHeaders != 0 {
			return
		}
		block, kind, flags, before, behind = block[n:], frameContinuation, 0, nil, nil
	}
	s.output = appendFrame(s.output, frameContinuation, flagEndHeaders, number, nil)
}

// data writes content in frames of any size within the windows.
func (s *server) data(number uint32, content string, end bool) (rest string, done bool) {
	window := int(min(s.windows[number], s.all))
	n := min(len(content), rapid.IntRange(0, 3000).Draw(s.t, "frame"), window)
	if n == 0 && content != "" {
		return content, false
	}
	payload, flags := []byte(content[:n]), uint8(0)
	if n < window && s.chance(20, "padded") {
		p := rapid.IntRange(0, min(10, window-n-1)).Draw(s.t, "padding")
		payload = slices.Concat([]byte{byte(p)}, payload, make([]byte, p))
		flags = flagPadded
	}
	if rest = content[n:]; rest == "" && end {
		flags |= flagEndStream
	}
	s.windows[number] -= int64(len(payload))
	s.all -= int64(len(payload))
	s.output = appendFrame(s.output, frameData, flags, number, payload)
	return rest, rest == ""
}

// noise writes what changes nothing for the exchanges.
func (s *server) noise() {
	switch rapid.IntRange(0, 12).Draw(s.t, "noise") {
	case 0:
		s.output = append(s.output, raw(framePing, 0, 0, "12345678")...)
	case 1:
		s.output = append(s.output, settings(settingMaxConcurrentStreams, 100)...)
	case 2:
		s.output = append(s.output, windowUpdate(0, 7)...)
	case 3:
		s.output = append(s.output, raw(0x33, 0x55, 1, strings.Repeat("?", rapid.IntRange(0, 100).Draw(s.t, "unknown")))...)
	case 4:
		s.output = append(s.output, raw(framePriority, 0, 77, "\x00\x00\x00\x00\x00")...)
	}
}

type answer struct {
	id      uint32
	number  uint32
	status  string
	header  []string
	content string
	trailer []string
	stage   int
}

// A stream of valid frames, whatever it holds, gives the events that it should, the same
// replies and the same state wherever it is cut.
func TestCutsChangeNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		config := testConfig()
		config.Streams = 8
		config.Settings = DefaultSettings()
		config.Settings.StreamWindow = rapid.SampledFrom([]int{50, 1000, 1 << 20}).Draw(t, "window")
		setUp := func() *listener {
			c := newClient(t, config)
			l := listen(t, c)
			l.hear(settings())
			for id := range uint32(8) {
				begin(t, c, id, get)
			}
			wiretest.Take(c)
			return l
		}
		s := &server{t: t, windows: map[uint32]int64{}, all: int64(config.Settings.ConnectionWindow)}
		s.encoder = hpack.NewEncoder(&s.block)
		var answers []*answer
		value := rapid.StringMatching(`[!-~]{0,20}`)
		for id := range uint32(8) {
			a := &answer{id: id, number: 2*id + 1, status: rapid.SampledFrom([]string{"200", "204", "404", "207"}).Draw(t, "status")}
			for range rapid.IntRange(0, 4).Draw(t, "fields") {
				a.header = append(a.header, rapid.SampledFrom([]string{"a", "b", "x", "content-type"}).Draw(t, "name"), value.Draw(t, "value"))
			}
			if a.status != "204" {
				a.content = strings.Repeat("c", rapid.SampledFrom([]int{0, 1, 100, 5000}).Draw(t, "content"))
			}
			if rapid.Bool().Draw(t, "length") {
				a.header = append(a.header, "content-length", fmt.Sprint(len(a.content)))
			}
			if rapid.Bool().Draw(t, "trailer") {
				a.trailer = append(a.trailer, "b", value.Draw(t, "value"), "y", "z")
			}
			s.windows[a.number] = int64(config.Settings.StreamWindow)
			answers = append(answers, a)
		}
		wanted := func(fields []string) (text string) {
			for i := 0; i < len(fields); i += 2 {
				if slices.Contains(config.Fields, fields[i]) {
					text += " " + fields[i] + "=" + fields[i+1]
				}
			}
			return text
		}
		// A model of the client follows in whole pieces, to tell the server its windows.
		model := setUp()
		for len(answers) > 0 {
			from := len(s.output)
			i := rapid.IntRange(0, len(answers)-1).Draw(t, "whose turn")
			a := answers[i]
			ended := false
			switch a.stage {
			case 0:
				if s.chance(10, "informational") {
					s.headers(a.number, false, ":status", "103", "a", "hint")
				}
				ended = a.content == "" && a.trailer == nil && rapid.Bool().Draw(t, "at once")
				s.headers(a.number, ended, append([]string{":status", a.status}, a.header...)...)
				s.want = append(s.want, fmt.Sprintf("head %d %s%s", a.id, a.status, wanted(a.header)))
				a.stage = 1
			case 1:
				content := a.content
				rest, done := s.data(a.number, content, a.trailer == nil)
				a.content = rest
				if done {
					a.stage, ended = 2, a.trailer == nil
				}
			case 2:
				s.headers(a.number, true, a.trailer...)
				ended = true
			}
			if ended {
				answers = slices.Delete(answers, i, i+1)
			}
			s.noise()
			model.hear(s.output[from:])
			output := wiretest.Take(model.c)
			for len(output) > 0 {
				f := parseFrame(output)
				if f.kind == frameWindowUpdate {
					by := int64(output[12]) | int64(output[11])<<8 | int64(output[10])<<16 | int64(output[9])<<24
					if f.number == 0 {
						s.all += by
					}
					s.windows[f.number] += by
				}
				output = output[frameHeader+f.length:]
			}
			if model.err != nil {
				t.Fatal(model.err)
			}
		}
		var heads []string
		for _, line := range model.lines {
			if strings.HasPrefix(line, "head") {
				heads = append(heads, line)
			} else if !strings.HasPrefix(line, "end") {
				t.Fatalf("%q", line)
			}
		}
		if diff := cmp.Diff(s.want, heads); diff != "" {
			t.Fatalf("want -, got +\n%s", diff)
		}
		whole, cut := setUp(), setUp()
		cuts := drawCuts(t, len(s.output))
		whole.hear(s.output)
		cut.hear(s.output, cuts...)
		for _, l := range []*listener{whole, cut} {
			if diff := cmp.Diff(model.lines, l.lines); diff != "" {
				t.Fatalf("cut at %v: want -, got +\n%s", cuts, diff)
			}
		}
		if a, b := wiretest.Take(whole.c), wiretest.Take(cut.c); !bytes.Equal(a, b) {
			t.Fatalf("says\n%q, cut\n%q", said(t, a), said(t, b))
		}
	})
}

// checkCuts compares what a client makes of bytes in one piece and in several, and that
// it holds no more than it may.
func checkCuts(tb wiretest.TB, input []byte, cuts []int) {
	tb.Helper()
	config := testConfig()
	config.Limits = Limits{HeaderBytes: 1000, BodyBytes: 10_000, Informational: 2}
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
		output := strings.Join(said(tb, wiretest.Take(c)), "\n")
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

// FuzzInput: no bytes make a client panic, take more than there is, stand still, hold
// more than it may, or depend on how they were cut.
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
