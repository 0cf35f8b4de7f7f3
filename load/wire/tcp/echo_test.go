package tcp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"dyno/load/wire/wiretest"
)

func newEcho(tb testing.TB, size int) *Echo {
	tb.Helper()
	t, err := NewEcho(EchoConfig{Size: size, Seed: 1})
	if err != nil {
		tb.Fatal(err)
	}
	return t.Client()
}

type outcome wiretest.Outcome

func TestEcho(t *testing.T) {
	changed := func(at int) func([]byte) []byte {
		return func(b []byte) []byte { b[at] ^= 1; return b }
	}
	for _, tt := range []struct {
		name   string
		size   int
		answer func([]byte) []byte
		want   outcome
	}{
		{"whole", 40, func(b []byte) []byte { return b }, outcome{40, true, nil, true, nil}},
		{"one byte", 1, func(b []byte) []byte { return b }, outcome{1, true, nil, true, nil}},
		{"first byte differs", 40, changed(0), outcome{40, true, ErrEcho, true, nil}},
		{"last byte differs", 40, changed(39), outcome{40, true, ErrEcho, true, nil}},
		{"only byte differs", 1, changed(0), outcome{1, true, ErrEcho, true, nil}},
		{"two bytes swapped", 40, func(b []byte) []byte { b[20], b[30] = b[30]^1, b[20]; return b }, outcome{40, true, ErrEcho, true, nil}},
		{"a byte too many", 40, func(b []byte) []byte { return append(b, 0) }, outcome{40, true, nil, false, ErrUnsolicited}},
		{"cut short", 40, func(b []byte) []byte { return b[:39] }, outcome{39, false, nil, false, ErrClosed}},
		{"nothing", 40, func(b []byte) []byte { return nil }, outcome{0, false, nil, false, ErrClosedEarly}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newEcho(t, tt.size)
			try := func(cuts ...int) {
				c.Reset()
				if got := outcome(wiretest.Respond(t, c, tt.answer(bytes.Clone(c.Request())), cuts...)); got != tt.want {
					t.Fatalf("cut at %v:\n got %+v\nwant %+v", cuts, got, tt.want)
				}
			}
			try()
			var all []int
			for i := range tt.want.Used {
				try(i)
				all = append(all, i)
			}
			try(all...)
		})
	}
}

// Messages carry their number, and differ in every 16 bytes. They repeat with the seed, and stay as
// they are while others are sent.
func TestEchoMessages(t *testing.T) {
	const size = 100
	a, b := newEcho(t, size), newEcho(t, size)
	other := a.t.Client() // another connection of the same worker
	var sent [][]byte
	for i := range uint64(300) {
		c := a
		if i%2 == 1 {
			c = other
		}
		m := c.Request()
		if len(m) != size || binary.BigEndian.Uint64(m) != i {
			t.Fatalf("message %d: %d bytes that start with %x", i, len(m), m[:8])
		}
		if !bytes.Equal(m, b.Request()) {
			t.Fatalf("message %d is not the same with the same seed", i)
		}
		sent = append(sent, m)
	}
	for i, m := range sent {
		if binary.BigEndian.Uint64(m) != uint64(i) {
			t.Fatalf("message %d has changed", i)
		}
		for _, later := range sent[i+1:] {
			for at := 0; at+16 <= size; at += 16 {
				if bytes.Equal(m[at:at+16], later[at:at+16]) {
					t.Fatalf("messages share 16 bytes at %d", at)
				}
			}
		}
	}
	seed2, err := NewEcho(EchoConfig{Size: size, Seed: 2})
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(seed2.Client().Request(), sent[0]) {
		t.Error("seeds 1 and 2 send the same")
	}
}

func TestEchoSequenceStartsAgain(t *testing.T) {
	for _, size := range []int{1, 3, 8, 17, 1 << 20} {
		c := newEcho(t, size)
		first := bytes.Clone(c.Request())
		var last []byte
		for range echoMessages - 1 {
			last = c.Request()
		}
		if len(last) != size || size >= 8 && binary.BigEndian.Uint64(last) != echoMessages-1 {
			t.Errorf("size %d: the last message has %d bytes, starts with %x", size, len(last), last[:min(8, size)])
		}
		if !bytes.Equal(c.Request(), first) {
			t.Errorf("size %d: message %d is not the first one again", size, echoMessages)
		}
	}
}

// An answer that belongs to another request is found out, at any size.
func TestEchoOfAnother(t *testing.T) {
	for _, size := range []int{1, 7, 8, 9, 1024} {
		c := newEcho(t, size)
		stale := bytes.Clone(c.Request())
		c.Request()
		if got := wiretest.Respond(t, c, stale); !errors.Is(got.Err, ErrEcho) {
			t.Errorf("size %d: %v; want %v", size, got, ErrEcho)
		}
		// The connection is still in step: the next echo is good.
		if got := outcome(wiretest.Respond(t, c, c.Request())); got != (outcome{Used: size, Done: true, Reusable: true}) {
			t.Errorf("size %d: then %v", size, got)
		}
	}
}

func TestEchoFaults(t *testing.T) {
	for _, size := range []int{-1, 0, MaxEchoSize + 1} {
		if _, err := NewEcho(EchoConfig{Size: size}); err == nil {
			t.Errorf("size %d accepted", size)
		}
	}
	if _, err := NewEcho(EchoConfig{Size: MaxEchoSize}); err != nil {
		t.Error(err)
	}
}

// Any answer gives the same outcome however it is cut, and is good exactly when it
// starts with the message.
func anyEcho(template *EchoTemplate) func(*rapid.T) {
	return func(t *rapid.T) {
		c := template.Client()
		sent := c.Request()
		input := bytes.Clone(sent)
		if rapid.Bool().Draw(t, "change") {
			input[rapid.IntRange(0, 23).Draw(t, "at")] = rapid.Byte().Draw(t, "byte")
		}
		input = append(input, rapid.SliceOfN(rapid.Byte(), 0, 3).Draw(t, "more")...)
		input = input[:rapid.IntRange(0, len(input)).Draw(t, "size")]
		cuts := rapid.SliceOfN(rapid.IntRange(0, len(input)), 0, 5).Draw(t, "cuts")
		slices.Sort(cuts)
		got := wiretest.Respond(t, c, input, cuts...)
		switch {
		case got.Done != (len(input) >= 24):
			t.Fatalf("%d bytes: %v", len(input), got)
		case got.Done && (got.Err == nil) != bytes.HasPrefix(input, sent):
			t.Fatalf("%x for %x: %v", input, sent, got)
		case got.Reusable != (len(input) == 24):
			t.Fatalf("%d bytes: %v", len(input), got)
		}
	}
}

func TestEchoAnyAnswer(t *testing.T) { rapid.Check(t, anyEcho(newEcho(t, 24).t)) }

func FuzzEcho(f *testing.F) {
	for i := range 16 {
		f.Add(bytes.Repeat([]byte{byte(17 * i), byte(i), 0, 0}, 200))
	}
	f.Fuzz(rapid.MakeFuzz(anyEcho(newEcho(f, 24).t)))
}
