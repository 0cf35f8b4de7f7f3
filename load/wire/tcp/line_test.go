package tcp

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"dyno/load/wire"
	"dyno/load/wire/wiretest"
)

func TestLine(t *testing.T) {
	pong := "PONG"
	for _, tt := range []struct {
		name    string
		config  LineConfig
		request string
		input   string
		want    outcome
	}{
		{"any answer", DefaultLine("PING"), "PING\n", "whatever\r\n", outcome{10, true, nil, true, nil}},
		{"empty lines", DefaultLine(""), "\n", "\n", outcome{1, true, nil, true, nil}},
		{"expected", LineConfig{Text: "PING", Expect: &pong, Limit: 10}, "PING\n", "PONG\n", outcome{5, true, nil, true, nil}},
		{"expected, CRLF", LineConfig{Text: "PING", Expect: &pong, Limit: 10, CRLF: true}, "PING\r\n", "PONG\r\n", outcome{6, true, nil, true, nil}},
		{"LF for CRLF", LineConfig{Text: "PING", Expect: &pong, Limit: 10, CRLF: true}, "PING\r\n", "PONG\n", outcome{5, true, ErrLine, true, nil}},
		{"CRLF for LF", LineConfig{Text: "PING", Expect: &pong, Limit: 10}, "PING\n", "PONG\r\n", outcome{6, true, ErrLine, true, nil}},
		{"expected empty", LineConfig{Expect: new(string), Limit: 10}, "\n", "\n", outcome{1, true, nil, true, nil}},
		{"not empty as expected", LineConfig{Expect: new(string), Limit: 10}, "\n", "x\n", outcome{2, true, ErrLine, true, nil}},
		{"another", LineConfig{Expect: &pong, Limit: 10}, "\n", "PANG\n", outcome{5, true, ErrLine, true, nil}},
		{"shorter", LineConfig{Expect: &pong, Limit: 10}, "\n", "PON\n", outcome{4, true, ErrLine, true, nil}},
		{"longer", LineConfig{Expect: &pong, Limit: 10}, "\n", "PONGS\n", outcome{6, true, ErrLine, true, nil}},
		{"nothing for something", LineConfig{Expect: &pong, Limit: 10}, "\n", "\n", outcome{1, true, ErrLine, true, nil}},
		{"at the limit", LineConfig{Limit: 5}, "\n", "1234\n", outcome{5, true, nil, true, nil}},
		{"beyond it by the line feed", LineConfig{Limit: 5}, "\n", "12345\n", outcome{5, false, ErrLineTooLong, false, nil}},
		{"beyond it", LineConfig{Limit: 5}, "\n", "1234567", outcome{5, false, ErrLineTooLong, false, nil}},
		{"two lines", DefaultLine(""), "\n", "a\nb\n", outcome{2, true, nil, false, ErrUnsolicited}},
		{"a wrong line and more", LineConfig{Expect: &pong, Limit: 10}, "\n", "a\nb\n", outcome{2, true, ErrLine, false, ErrUnsolicited}},
		{"end", DefaultLine(""), "\n", "abc", outcome{3, false, nil, false, ErrClosed}},
		{"early end", DefaultLine(""), "\n", "", outcome{0, false, nil, false, ErrClosedEarly}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			template, err := NewLine(tt.config)
			if err != nil {
				t.Fatal(err)
			}
			answers(t, template.Client(), asked(t, tt.request, tt.input), tt.want)
		})
	}
}

func TestLineFaults(t *testing.T) {
	expect := "1234\n"
	_, err := NewLine(LineConfig{Text: "a\nb", Expect: &expect, Limit: 0})
	want := `tcp: line text "a\nb": want no line feed inside
line limit 0: want 1 to 16777216 bytes
expected line "1234\n": want no line feed inside
expected line of 6 bytes with its end: want at most the limit, 0`
	if fmt.Sprint(err) != want {
		t.Errorf("got %v\nwant %v", err, want)
	}
	for _, c := range []LineConfig{
		{Limit: 1, CRLF: true},
		{Limit: MaxLineBytes + 1},
		{Text: strings.Repeat("x", MaxLineBytes+1), Limit: 1},
	} {
		if c.Validate() == nil {
			t.Errorf("limit %d, %d bytes of text accepted", c.Limit, len(c.Text))
		}
	}
}

// FuzzLine: any bytes give the same outcome however they are cut, and the one that
// looking at them as a whole gives.
func FuzzLine(f *testing.F) {
	f.Add([]byte("PONG\r\n"), uint8(1), uint8(5))
	f.Add([]byte("PONG\r\nx"), uint8(6), uint8(6))
	f.Add([]byte("PON\n"), uint8(0), uint8(9))
	f.Add([]byte("0123456789"), uint8(3), uint8(8))
	pong := "PONG"
	template, err := NewLine(LineConfig{Text: "PING", CRLF: true, Expect: &pong, Limit: 8})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, input []byte, a, b uint8) {
		line, rest, found := bytes.Cut(input, []byte("\n"))
		want := outcome{Used: len(line) + 1, Done: true, Reusable: len(rest) == 0}
		switch {
		case found && len(line) < 8:
			if string(line) != "PONG\r" {
				want.Err = ErrLine
			}
			if len(rest) > 0 {
				want.After = ErrUnsolicited
			}
		case len(input) > 8:
			want = outcome{Used: 8, Err: ErrLineTooLong}
		case len(input) > 0:
			want = outcome{Used: len(input), After: ErrClosed}
		default:
			want = outcome{After: ErrClosedEarly}
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

// What is larger than this side takes is no fault of the peer's.
func TestOwnLimits(t *testing.T) {
	for _, err := range []*wire.Error{ErrLineTooLong, ErrTooLong} {
		if err.Kind != wire.Limit {
			t.Errorf("%v is of kind %v", err, err.Kind)
		}
	}
}
