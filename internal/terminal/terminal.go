// Package terminal makes texts from outside harmless for the reader's terminal (CWE-150). Texts from servers, agents, files and scripts may move the cursor, set the title, or turn
// the direction of writing. A program gives its standard output and error to Cleaned once, and
// everything it prints is harmless.
//
// Output that must reach the outside unchanged goes around it: Raw for what the program itself draws,
// Data for the bytes of files and records.
package terminal

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
)

// steers are characters beyond the controls that change how the text around them is shown (UAX #9), or break lines.
var steers = &unicode.RangeTable{R16: []unicode.Range16{
	{Lo: 0x061c, Hi: 0x061c, Stride: 1},
	{Lo: 0x200e, Hi: 0x200f, Stride: 1},
	{Lo: 0x2028, Hi: 0x202e, Stride: 1},
	{Lo: 0x2066, Hi: 0x2069, Stride: 1},
}}

// isHarmless reports whether a character only shows itself, or is a tab or the end of a line. CR is, before LF: CSV has
// lines that end so (RFC 4180).
func isHarmless(r rune) bool {
	return r >= ' ' && r < 0x7f || r == '\n' || r == '\t' || r >= 0xa0 && !unicode.Is(steers, r)
}

// IsClean reports whether a Writer passes a text on as it is.
func IsClean(text []byte) bool { return len(clean(text)) == len(text) }

// Line makes text fit for one line, or a cell of a table. Runs of white space become one space.
// Characters that steer, or are invisible, are shown as their codes.
func Line(s string) string {
	var b strings.Builder
	space := false
	for _, r := range s {
		if unicode.IsSpace(r) {
			space = true
			continue
		}
		if space && b.Len() > 0 {
			b.WriteByte(' ')
		}
		space = false
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
			fmt.Fprintf(&b, "<U+%04X>", r)
			continue
		}
		b.WriteRune(r) // an invalid byte has become U+FFFD
	}
	return b.String()
}

// A Writer passes on text, with characters that steer a terminal as escapes: \u001b, as JSON and YAML
// have them within strings. So values in such formats stay the same. Its methods may be called at the
// same time.
type Writer struct {
	to io.Writer

	mu   sync.Mutex
	part []byte // the beginning of a character, whose rest comes with the next write
}

// Cleaned returns a writer that writes to another one. Flush it at the end.
func Cleaned(w io.Writer) *Writer { return &Writer{to: w} }

// Write implements io.Writer. After an error, n is 0 or len(p): what was escaped has another length.
func (w *Writer) Write(p []byte) (n int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := p
	if len(w.part) > 0 {
		text = append(w.part, p...)
		w.part = nil
	}
	if whole := wholeCharacters(text); whole < len(text) {
		w.part = bytes.Clone(text[whole:])
		text = text[:whole]
	}
	if _, err := w.to.Write(clean(text)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Flush writes what was begun and not completed.
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.part) == 0 {
		return nil
	}
	_, err := w.to.Write(clean(w.part))
	w.part = nil
	return err
}

// wholeCharacters returns the length of a text without an incomplete character, or line end, at its
// end.
func wholeCharacters(text []byte) int {
	if bytes.HasSuffix(text, []byte("\r")) {
		return len(text) - 1
	}
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if at := len(text) - n; utf8.RuneStart(text[at]) {
			if utf8.FullRune(text[at:]) {
				break
			}
			return at
		}
	}
	return len(text)
}

// clean escapes what steers a terminal. Text without that is returned as it is.
func clean(text []byte) []byte {
	var out []byte
	done := 0
	for at := 0; at < len(text); {
		r, n := utf8.DecodeRune(text[at:])
		switch {
		case r == utf8.RuneError && n == 1:
			out = fmt.Appendf(append(out, text[done:at]...), `\x%02x`, text[at])
		case !isHarmless(r) && !bytes.HasPrefix(text[at:], []byte("\r\n")):
			out = fmt.Appendf(append(out, text[done:at]...), `\u%04x`, r)
		default:
			at += n
			continue
		}
		at += n
		done = at
	}
	if done == 0 {
		return text
	}
	return append(out, text[done:]...)
}

// Raw returns the writer to which a Writer writes, for what the program itself draws: colours, a screen
// that is repainted. Text from outside must be clean by then. Other writers are returned as they are.
func Raw(w io.Writer) io.Writer {
	if c, is := w.(*Writer); is {
		return c.to
	}
	return w
}

// Data returns a writer for bytes that stand for themselves, such as a file's content: they are cleaned only where a
// person sees them.
func Data(w io.Writer) io.Writer {
	if f, is := Raw(w).(*os.File); is && term.IsTerminal(int(f.Fd())) { //nolint:gosec // a descriptor is small
		return w
	}
	return Raw(w)
}
