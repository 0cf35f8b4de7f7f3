// Package measures reads the figures that a program prints: a JSON object of numbers on the last line of its
// output.
package measures

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"dyno/internal/lazyregexp"
)

// The bounds of the figures that a program may print.
const (
	maxMeasures = 1000
	maxLastLine = 1 << 20 // bytes
)

// measureName matches valid names of figures.
var measureName = lazyregexp.New(`^[a-z][a-z0-9_]{0,99}$`)

// A LastLine keeps the last line written to it that is not blank, up to a bound.
type LastLine struct {
	last, next buffer
}

// A buffer is a line; it keeps only a bounded part.
type buffer struct {
	text    []byte
	tooLong bool
}

// Write never fails.
func (l *LastLine) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		line, rest, ended := bytes.Cut(p, []byte("\n"))
		l.next.add(line)
		if ended {
			l.end()
		}
		p = rest
	}
	return n, nil
}

func (b *buffer) add(p []byte) {
	room := maxLastLine - len(b.text)
	b.tooLong = b.tooLong || len(p) > room
	b.text = append(b.text, p[:min(len(p), room)]...)
}

// end ends a line. If it is not blank, it is now the last one.
func (l *LastLine) end() {
	if l.next.tooLong || len(bytes.TrimSpace(l.next.text)) > 0 {
		l.last, l.next = l.next, l.last
	}
	l.next = buffer{text: l.next.text[:0]}
}

// Measures reads the figures from the last line, after everything has been written.
func (l *LastLine) Measures() (map[string]float64, error) {
	l.end()
	switch {
	case l.last.tooLong:
		return nil, fmt.Errorf("longer than %d bytes", maxLastLine)
	case len(l.last.text) == 0:
		return nil, errors.New("there is none; want a JSON object of numbers")
	}
	return parseMeasures(l.last.text)
}

// parseMeasures reads a JSON object of finite numbers. It reports what is wrong with each
// of them, up to a bound.
func parseMeasures(line []byte) (map[string]float64, error) {
	const mostFaults = 10
	d := json.NewDecoder(bytes.NewReader(line))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, fmt.Errorf("%q; want a JSON object of numbers", clipped(line))
	}
	measures := map[string]float64{}
	var faults []error
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, fmt.Errorf("byte %d: %w", d.InputOffset(), err)
		}
		name, _ := key.(string) // the decoder accepts only strings as keys
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, fmt.Errorf("byte %d: %w", d.InputOffset(), err)
		}
		number, err := strconv.ParseFloat(string(value), 64)
		_, again := measures[name]
		switch {
		case !measureName().MatchString(name):
			faults = append(faults, fmt.Errorf("%q: want a name of lower-case letters, digits and underscores that begins with a letter", clipped([]byte(name))))
		case again:
			faults = append(faults, fmt.Errorf("%s: is there twice", name))
		case err != nil:
			faults = append(faults, fmt.Errorf("%s: %s: want a finite number", name, clipped(value)))
		case len(measures) == maxMeasures:
			return nil, fmt.Errorf("more than %d numbers", maxMeasures)
		default:
			measures[name] = number
		}
		if len(faults) == mostFaults {
			return nil, errors.Join(append(faults, errors.New("and maybe more"))...)
		}
	}
	if _, err := d.Token(); err != nil { // the closing brace
		return nil, fmt.Errorf("byte %d: %w", d.InputOffset(), unexpected(err))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("byte %d: something follows the object", d.InputOffset())
	}
	if len(faults) == 0 && len(measures) == 0 {
		faults = append(faults, errors.New("an object without numbers"))
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return measures, nil
}

// unexpected turns io.EOF into an error where the text must continue.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// clipped shortens a text that a message quotes.
func clipped(b []byte) []byte {
	const most = 100
	if len(b) > most {
		return append(b[:most:most], "…"...)
	}
	return b
}
