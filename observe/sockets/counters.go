//go:build linux

package sockets

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"

	"dyno/internal/texts"
	"dyno/observe"
)

// DefaultCountersName is the prefix of a Counters' columns by default.
const DefaultCountersName = "network"

// mostText bounds a file of counters. Kernels print about 5 KB.
const mostText = 64 << 10

// Counters observes what the TCP of one network namespace has counted (proc(5): /proc/PID/net/snmp and
// netstat). RFC 4022 and the kernel's Documentation/networking/snmp_counter.rst have the names. It is
// read with every row, so that a window holds exactly what was counted in it; but it is everybody's in
// the namespace, not the target's alone.
type Counters struct {
	name     string
	counters []counter
	files    [2]*os.File
	buf      []byte
}

// A counter is a kernel's counter and its column.
type counter struct {
	file   int    // index of Counters.files
	prefix string // of its line
	kernel string // name
	column observe.Column
}

const (
	snmp = iota
	netstat
)

func counters() []counter {
	c := func(name, help string) observe.Column {
		return observe.Column{Name: name, Kind: observe.Counter, Help: help + ", of all in the network namespace"}
	}
	return []counter{
		{netstat, "TcpExt", "ListenOverflows", c("listen_overflows_total", "connections dropped because an accept queue was full")},
		{netstat, "TcpExt", "ListenDrops", c("listen_drops_total", "connections dropped while they were being opened, for this or another reason")},
		{netstat, "TcpExt", "TCPTimeouts", c("timeouts_total", "retransmission timers that ran out")},
		{snmp, "Tcp", "OutSegs", c("segments_sent_total", "segments sent, without those sent again")},
		{snmp, "Tcp", "RetransSegs", c("segments_retransmitted_total", "segments sent again")},
		{snmp, "Tcp", "ActiveOpens", c("opened_total", "connections that were opened from here")},
		{snmp, "Tcp", "PassiveOpens", c("accepted_total", "connections that were opened from elsewhere")},
		{snmp, "Tcp", "EstabResets", c("reset_total", "established connections that ended by a reset")},
		{snmp, "Tcp", "OutRsts", c("resets_sent_total", "segments sent with a reset")},
	}
}

// NewCounters observes the network namespace of a process; 0 is this one's. The
// columns begin with name, which by default is "network".
func NewCounters(name string, pid int) (*Counters, error) {
	if name == "" {
		name = DefaultCountersName
	}
	c := &Counters{name: name, counters: counters(), buf: make([]byte, mostText)}
	process := "thread-self" // the first thread of the process may be elsewhere
	if pid != 0 {
		process = strconv.Itoa(pid)
	}
	for i, file := range []string{snmp: "snmp", netstat: "netstat"} {
		// The file stays bound to the namespace, also when the process is gone.
		f, err := os.Open("/proc/" + process + "/net/" + file)
		if err != nil {
			return nil, errors.Join(&observe.Unavailable{Observer: name, Reason: texts.Verbatim(err.Error()), Remedy: texts.New("help.proc"), Err: err}, c.Close())
		}
		c.files[i] = f
	}
	row := make([]float64, len(c.Columns()))
	if err := c.Observe(row); err != nil {
		return nil, errors.Join(&observe.Unavailable{Observer: name, Reason: texts.Verbatim(err.Error()), Err: err}, c.Close())
	}
	return c, nil
}

// Name returns the name given.
func (c *Counters) Name() string { return c.name }

// Columns returns the columns.
func (c *Counters) Columns() []observe.Column {
	var columns []observe.Column
	for _, k := range c.counters {
		columns = append(columns, k.column)
	}
	return columns
}

// Observe reads the counters. One that this kernel does not have is not known.
func (c *Counters) Observe(row []float64) error {
	for i := range row {
		row[i] = math.NaN()
	}
	var errs []error
	for file, f := range c.files {
		n, err := readWhole(f, c.buf)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for i, k := range c.counters {
			if k.file != file {
				continue
			}
			if v, ok := parseCounter(c.buf[:n], k.prefix, k.kernel); ok {
				row[i] = float64(v)
			}
		}
	}
	return errors.Join(errs...)
}

func readWhole(f *os.File, buf []byte) (int, error) {
	// ReadAt ends with io.EOF where the file does, unless it fills the buffer.
	n, err := f.ReadAt(buf, 0)
	switch {
	case n == len(buf):
		return 0, fmt.Errorf("%s: more than %d bytes", f.Name(), len(buf))
	case n == 0 && err != nil:
		return 0, err
	}
	return n, nil
}

// Close closes the files.
func (c *Counters) Close() error {
	var errs []error
	for i, f := range c.files {
		if f != nil {
			errs = append(errs, f.Close())
			c.files[i] = nil
		}
	}
	return errors.Join(errs...)
}

// parseCounter finds a counter in pairs of lines. The first line has names and the second values, each
// after the same word and a colon. It does not allocate.
func parseCounter(text []byte, prefix, name string) (value uint64, ok bool) {
	for len(text) > 0 {
		var names, values []byte
		names, text, _ = bytes.Cut(text, []byte("\n"))
		if !hasWord(names, prefix) {
			continue
		}
		values, text, _ = bytes.Cut(text, []byte("\n"))
		if !hasWord(values, prefix) {
			return 0, false
		}
		names, values = names[len(prefix)+1:], values[len(prefix)+1:]
		for {
			var n, v []byte
			n, names = word(names)
			v, values = word(values)
			if len(n) == 0 || len(v) == 0 {
				break
			}
			if string(n) == name {
				return decimal(v)
			}
		}
	}
	return 0, false
}

// hasWord tells whether a line begins with a word and a colon.
func hasWord(line []byte, word string) bool {
	return len(line) > len(word) && string(line[:len(word)]) == word && line[len(word)] == ':'
}

// word returns the first word of a line and what follows it.
func word(line []byte) (first, rest []byte) {
	line = bytes.TrimLeft(line, " ")
	if end := bytes.IndexByte(line, ' '); end >= 0 {
		return line[:end], line[end:]
	}
	return line, nil
}

// decimal reads a whole word as a number.
func decimal(b []byte) (n uint64, ok bool) {
	for _, c := range b {
		d := uint64(c - '0')
		if c < '0' || c > '9' || n > (math.MaxUint64-d)/10 {
			return 0, false
		}
		n = n*10 + d
	}
	return n, len(b) > 0
}
