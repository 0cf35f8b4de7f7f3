package textfile

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// A Scanner reads the lines of a file that is too large to be kept.
type Scanner struct {
	name  string
	most  int
	lines *bufio.Scanner
	text  []byte
	line  int
	err   error
}

// NewScanner returns a scanner of lines of at most a number of bytes.
func NewScanner(name string, r io.Reader, most int) *Scanner {
	s := &Scanner{name: name, most: most, lines: bufio.NewScanner(r)}
	s.lines.Buffer(nil, most)
	s.lines.Split(splitLine)
	return s
}

// splitLine is a bufio.SplitFunc for lines of all three ends.
func splitLine(data []byte, atEOF bool) (advance int, line []byte, err error) {
	end := bytes.IndexAny(data, "\r\n")
	switch {
	case end < 0 && atEOF && len(data) > 0:
		return len(data), data, nil
	case end < 0, data[end] == '\r' && end+1 == len(data) && !atEOF: // an LF may follow
		return 0, nil, nil
	case bytes.HasPrefix(data[end:], []byte("\r\n")):
		return end + 2, data[:end], nil
	}
	return end + 1, data[:end], nil
}

// Scan reads the next line, and tells whether there is one.
func (s *Scanner) Scan() bool {
	if s.err != nil || !s.lines.Scan() {
		return false
	}
	s.line++
	if s.text = s.lines.Bytes(); s.line == 1 {
		s.text, s.err = TrimMark(s.name, s.text)
	}
	if s.err == nil {
		s.err = checkText(s.name, s.text)
	}
	var f *Fault
	if errors.As(s.err, &f) {
		f.Line = s.line
	}
	return s.err == nil
}

// Bytes returns the line without its end, valid until the next call of Scan.
func (s *Scanner) Bytes() []byte { return s.text }

// Line returns the line's number, from 1.
func (s *Scanner) Line() int { return s.line }

// Err returns what kept the scanner from reading on: nil at the end.
func (s *Scanner) Err() error {
	err := s.lines.Err()
	switch {
	case s.err != nil:
		return s.err
	case errors.Is(err, bufio.ErrTooLong):
		return fmt.Errorf("%s:%d: a line of more than %d bytes", s.name, s.line+1, s.most)
	case err != nil:
		return fmt.Errorf("%s: %w", s.name, err)
	}
	return nil
}
