package agent

import (
	"bytes"
	"io"
	"slices"
	"sync"
)

// The bounds of the kept lines.
const (
	maxLines     = 500
	maxLineBytes = 2 << 10
)

// Lines keep the last lines of a log. Each Write is one line, as package slog writes them.
type Lines struct {
	mu   sync.Mutex // guards the fields below
	kept [][]byte   // a ring: the oldest is at next, once it is full
	next int
}

var _ io.Writer = (*Lines)(nil)

// Write implements io.Writer.
func (l *Lines) Write(line []byte) (int, error) {
	kept := bytes.TrimSuffix(line, []byte("\n"))
	kept = append(slices.Clone(kept[:min(len(kept), maxLineBytes)]), '\n')
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.kept) < maxLines {
		l.kept = append(l.kept, kept)
	} else {
		l.kept[l.next] = kept
		l.next = (l.next + 1) % maxLines
	}
	return len(line), nil
}

// Text returns the lines, the oldest first.
func (l *Lines) Text() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Join(slices.Concat(l.kept[l.next:], l.kept[:l.next]), nil)
}
