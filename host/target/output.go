package target

import (
	"bytes"
	"io"
	"regexp"
	"sync"
)

const (
	tailLines = 20
	// maxLine bounds how much of a line is kept for the tail and for matching. Only the
	// writer gets the rest of a longer line.
	maxLine = 4096
)

// output takes what a process writes. It passes the text on, keeps the tail, and notices
// when a line matches.
type output struct {
	sink    io.Writer      // nil: the text is dropped
	match   *regexp.Regexp // nil: no line is looked for
	matched chan struct{}  // closed at the first match

	mu   sync.Mutex // guards the fields below
	tail [][]byte   // complete lines, oldest first, at most tailLines
	line []byte     // the line being written
	lost error      // why the sink stopped taking output
	seen bool       // matched is closed
}

func newOutput(sink io.Writer, match *regexp.Regexp) *output {
	return &output{sink: sink, match: match, matched: make(chan struct{})}
}

// drain reads r to its end. It keeps reading after the sink has failed. So a full disk becomes an error
// that dyno reports, and does not block the target.
func (o *output) drain(r io.Reader) {
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			o.take(buf[:n])
		}
		if err != nil {
			return
		}
	}
}

func (o *output) take(p []byte) {
	if o.sink != nil && o.lostErr() == nil {
		if _, err := o.sink.Write(p); err != nil {
			o.mu.Lock()
			o.lost = err
			o.mu.Unlock()
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for {
		i := bytes.IndexByte(p, '\n')
		part := p
		if i >= 0 {
			part = p[:i]
		}
		o.line = append(o.line, part[:min(len(part), maxLine-len(o.line))]...)
		if i < 0 {
			o.check() // for a prompt, which has no newline
			return
		}
		o.check()
		o.keep()
		p = p[i+1:]
	}
}

func (o *output) check() {
	if o.match != nil && !o.seen && o.match.Match(o.line) {
		o.seen = true
		close(o.matched)
	}
}

// keep moves the line into the tail, in the memory of the oldest line.
func (o *output) keep() {
	var old []byte
	if len(o.tail) == tailLines {
		old = o.tail[0][:0]
		copy(o.tail, o.tail[1:])
		o.tail = o.tail[:tailLines-1]
	}
	o.tail = append(o.tail, o.line)
	o.line = old
}

// lines returns the tail, including an unfinished last line.
func (o *output) lines() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := o.tail
	if len(o.line) > 0 {
		all = append(all[:len(all):len(all)], o.line)
	}
	all = all[max(0, len(all)-tailLines):]
	out := make([]string, len(all))
	for i, l := range all {
		out[i] = string(bytes.TrimRight(l, "\r"))
	}
	return out
}

func (o *output) lostErr() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.lost
}
