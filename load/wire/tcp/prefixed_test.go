package tcp

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"dyno/load/wire/wiretest"
)

func TestPrefixed(t *testing.T) {
	for _, tt := range []struct {
		name    string
		config  PrefixedConfig
		request string
		input   string
		want    outcome
	}{
		{"1", PrefixedConfig{Width: 1, Payload: []byte("hi"), Limit: 255}, "\x02hi", "\x03abc", outcome{4, true, nil, true, nil}},
		{"2", PrefixedConfig{Width: 2, Payload: []byte("hi"), Limit: 999}, "\x00\x02hi", "\x01\x02" + strings.Repeat("x", 0x102), outcome{0x104, true, nil, true, nil}},
		{"4", DefaultPrefixed([]byte("hi")), "\x00\x00\x00\x02hi", "\x00\x00\x00\x03abc", outcome{7, true, nil, true, nil}},
		{"empty", DefaultPrefixed(nil), "\x00\x00\x00\x00", "\x00\x00\x00\x00", outcome{4, true, nil, true, nil}},
		{"at the limit", PrefixedConfig{Width: 1, Limit: 3}, "\x00", "\x03abc", outcome{4, true, nil, true, nil}},
		{"above it", PrefixedConfig{Width: 1, Limit: 3}, "\x00", "\x04abcd", outcome{1, false, ErrTooLong, false, nil}},
		{"largest", DefaultPrefixed(nil), "\x00\x00\x00\x00", "\xff\xff\xff\xffabc", outcome{4, false, ErrTooLong, false, nil}},
		{"more", PrefixedConfig{Width: 1, Limit: 3}, "\x00", "\x01abc", outcome{2, true, nil, false, ErrUnsolicited}},
		{"end in the prefix", PrefixedConfig{Width: 2, Limit: 3}, "\x00\x00", "\x00", outcome{1, false, nil, false, ErrClosed}},
		{"end after the prefix", PrefixedConfig{Width: 2, Limit: 3}, "\x00\x00", "\x00\x01", outcome{2, false, nil, false, ErrClosed}},
		{"end in the payload", PrefixedConfig{Width: 2, Limit: 3}, "\x00\x00", "\x00\x02a", outcome{3, false, nil, false, ErrClosed}},
		{"early end", PrefixedConfig{Width: 2, Limit: 3}, "\x00\x00", "", outcome{0, false, nil, false, ErrClosedEarly}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			template, err := NewPrefixed(tt.config)
			if err != nil {
				t.Fatal(err)
			}
			answers(t, template.Client(), asked(t, tt.request, tt.input), tt.want)
		})
	}
}

func TestPrefixedFaults(t *testing.T) {
	_, err := NewPrefixed(PrefixedConfig{Width: 3, Payload: make([]byte, MaxPayload+1), Limit: -1})
	want := `tcp: prefix width 3: want 1, 2 or 4 bytes
payload of 16777217 bytes: want at most 16777216
answer limit -1: want 0 bytes or more`
	if fmt.Sprint(err) != want {
		t.Errorf("got %v\nwant %v", err, want)
	}
	for width, largest := range map[int]int{1: 255, 2: 65535, 4: MaxPayload} {
		c := PrefixedConfig{Width: width, Payload: make([]byte, largest)}
		if err := c.Validate(); err != nil {
			t.Errorf("width %d: %v", width, err)
		}
		c.Payload = append(c.Payload, 0)
		if c.Validate() == nil {
			t.Errorf("width %d: %d bytes accepted", width, largest+1)
		}
	}
}

// FuzzPrefixed: any bytes give the same outcome however they are cut, and the one
// that looking at them as a whole gives.
func FuzzPrefixed(f *testing.F) {
	f.Add([]byte("\x00\x03abc"), uint8(1), uint8(3))
	f.Add([]byte("\x00\x01abc"), uint8(2), uint8(3))
	f.Add([]byte("\x01\x01abc"), uint8(0), uint8(1))
	f.Add([]byte("\x00"), uint8(0), uint8(1))
	template, err := NewPrefixed(PrefixedConfig{Width: 2, Limit: 20})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, input []byte, a, b uint8) {
		length := 0
		if len(input) >= 2 {
			length = int(input[0])<<8 | int(input[1])
		}
		var want outcome
		switch {
		case len(input) == 0:
			want = outcome{After: ErrClosedEarly}
		case length > 20:
			want = outcome{Used: 2, Err: ErrTooLong}
		case len(input) < 2+length || len(input) < 2:
			want = outcome{Used: len(input), After: ErrClosed}
		default:
			want = outcome{Used: 2 + length, Done: true, Reusable: len(input) == 2+length}
			if !want.Reusable {
				want.After = ErrUnsolicited
			}
		}
		cuts := []int{int(a) % (len(input) + 1), int(b) % (len(input) + 1)}
		slices.Sort(cuts)
		c := template.Client()
		for _, cuts := range [][]int{nil, cuts} {
			c.Reset()
			c.Request()
			if got := outcome(wiretest.Respond(t, c, input, cuts...)); got != want {
				t.Fatalf("%q cut at %v:\n got %v\nwant %v", input, cuts, got, want)
			}
		}
	})
}
