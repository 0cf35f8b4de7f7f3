package terminal_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"

	"dyno/internal/terminal"
)

func cleaned(t interface{ Fatal(...any) }, pieces ...string) string {
	var b strings.Builder
	w := terminal.Cleaned(&b)
	for _, p := range pieces {
		if n, err := io.WriteString(w, p); n != len(p) || err != nil {
			t.Fatal(n, err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestCleaned(t *testing.T) {
	for text, want := range map[string]string{
		"p99 ≤1.42 ms\tnginx\n":            "p99 ≤1.42 ms\tnginx\n",
		"\x1b]0;title\a\x1b[2J":            `\u001b]0;title\u0007\u001b[2J`,
		"\u009b31m red \x9b31m":            `\u009b31m red \x9b31m`,
		"over\rwritten\b\x7f":              `over\u000dwritten\u0008\u007f`,
		"a,b\r\n1\r\r\n":                   "a,b\r\n1\\u000d\r\n",
		"turned \u202etxt.exe\u2066":       `turned \u202etxt.exe\u2066`,
		"one\u2028line":                    `one\u2028line`,
		"👩\u200d💻 and \u00ad and 日本語 stay": "👩\u200d💻 and \u00ad and 日本語 stay",
		"cut \xe6\x97":                     `cut \xe6\x97`,
	} {
		if got := cleaned(t, text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// Any text, in any pieces, comes out the same, and none of it steers a terminal.
func TestNothingSteersATerminal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringOf(rapid.RuneFrom([]rune{'a', 0x1b, '[', 0x9b, 0x202e, '日', '\r', '\n'})),
			rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) })).Draw(t, "text")
		at := rapid.IntRange(0, len(text)).Draw(t, "at")
		got := cleaned(t, text[:at], text[at:])
		if whole := cleaned(t, text); got != whole {
			t.Fatalf("in two pieces %q, in one %q", got, whole)
		}
		if !utf8.ValidString(got) {
			t.Fatalf("%q is no UTF-8", got)
		}
		if strings.Contains(strings.ReplaceAll(got, "\r\n", ""), "\r") {
			t.Fatalf("%q has a CR within a line", got)
		}
		for _, r := range got {
			if unicode.IsControl(r) && r != '\n' && r != '\t' && r != '\r' || unicode.Is(unicode.Bidi_Control, r) {
				t.Fatalf("%U in %q", r, got)
			}
		}
	})
}

// Programs read JSON from standard output: its values stay what they are.
func TestJSONKeepsItsValues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.String().Draw(t, "value")
		text, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		var got string
		if err := json.Unmarshal([]byte(cleaned(t, string(text))), &got); err != nil || got != want {
			t.Fatalf("%q, %v; want %q", got, err, want)
		}
	})
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("no room") }

func TestErrorsOfTheWriter(t *testing.T) {
	if n, err := terminal.Cleaned(broken{}).Write([]byte("text")); n != 0 || err == nil {
		t.Error(n, err)
	}
}

func TestWhatGoesAroundIt(t *testing.T) {
	var b bytes.Buffer
	w := terminal.Cleaned(&b)
	if terminal.Raw(w) != io.Writer(&b) || terminal.Raw(&b) != io.Writer(&b) || terminal.Data(w) != io.Writer(&b) {
		t.Error("not what it writes to")
	}
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = null.Close() }()
	if terminal.Data(terminal.Cleaned(null)) != io.Writer(null) {
		t.Error("no terminal reads /dev/null")
	}
}
