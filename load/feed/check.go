package feed

import (
	"bytes"
	"errors"
	"fmt"
	"unicode/utf8"

	"dyno/load/jsonpath"
)

// A checker reads a file once, from beginning to end.
type checker struct {
	t       *Table
	at      int  // in the file, of the row at hand
	line    int  // the current row's line
	empty   int  // the first empty line after the last row; 0: none
	started bool // the header, or without one the first row, was seen
	fields  []field
	faults  []error
	over    bool // nothing more can be said of the file
}

func (c *checker) fault(line, column int, problem, hint string) {
	if c.over {
		return
	}
	c.faults = append(c.faults, &Fault{File: c.t.name, Line: line, Column: column, Problem: problem, Hint: hint})
	if len(c.faults) == maxFaults {
		c.faults = append(c.faults, fmt.Errorf("%s: %w", c.t.name, errFaults))
		c.over = true
	}
}

// faultIn reports a fault at a place in the row p.
func (c *checker) faultIn(p []byte, offset int, problem, hint string) {
	begin := bytes.LastIndexByte(p[:offset], c.t.newline) + 1
	line := c.line + c.lines(p[:begin])
	c.fault(line, utf8.RuneCount(p[begin:offset])+1, problem, hint)
}

func (c *checker) run() error {
	c.begin()
	for c.line = 1; c.at < len(c.t.data) && !c.over; {
		n := c.row()
		c.line += c.lines(c.t.data[c.at : c.at+n])
		c.at += n
	}
	if len(c.faults) == 0 && c.t.Rows() == 0 {
		hint := "want one row at least"
		if c.t.options.hasHeader() {
			hint = "want a header and one row at least"
		}
		c.fault(0, 0, "no rows of data", hint)
	}
	return errors.Join(c.faults...)
}

// lines counts the ends of lines.
func (c *checker) lines(p []byte) int { return bytes.Count(p, []byte{c.t.newline}) }

// begin passes over a byte order mark, and finds out what ends lines.
func (c *checker) begin() {
	if c.t.newline = '\n'; bytes.IndexByte(c.t.data, '\n') < 0 {
		c.t.newline = '\r'
	}
	const mark = "\xef\xbb\xbf"
	switch p := c.t.data; {
	case bytes.HasPrefix(p, []byte(mark)):
		c.at = len(mark)
	case bytes.HasPrefix(p, []byte("\xff\xfe")), bytes.HasPrefix(p, []byte("\xfe\xff")):
		c.fault(1, 1, "the text is UTF-16", "want UTF-8: convert it, for example with iconv -f UTF-16 -t UTF-8")
		c.over = true
	}
}

// row reads the row, or the empty line, at hand and returns how long it is.
func (c *checker) row() (n int) {
	p := c.t.data[c.at:]
	final := len(p) <= MaxRow
	if !final {
		p = p[:MaxRow]
	}
	empty := false
	if c.t.options.Format == JSONLines {
		n, empty = c.jsonLine(p, final)
	} else {
		n, empty = c.csvRow(p, final)
	}
	if empty && c.empty == 0 {
		c.empty = c.line
	}
	if !empty && c.empty > 0 {
		c.fault(c.empty, 1, "an empty line", `take it out, or write "" for an empty value`)
		c.empty = 0
	}
	return n
}

// keep notes a sound row.
func (c *checker) keep(n int) {
	if len(c.faults) > 0 {
		return // the index will not be used
	}
	c.t.rows.add(int64(c.at))
	c.t.end = int64(c.at + n)
}

// skip passes over the rest of the line with the row's byte n, and returns the next line's beginning.
func (c *checker) skip(n int) int {
	rest := c.t.data[c.at:]
	i := bytes.IndexByte(rest[n:], c.t.newline)
	if i < 0 {
		return len(rest)
	}
	return n + i + 1
}

// tooLong reports a row of more than MaxRow bytes.
func (c *checker) tooLong() {
	c.fault(c.line, 1, fmt.Sprintf("a row of more than %d bytes", MaxRow), "want shorter ones")
}

func (c *checker) csvRow(p []byte, final bool) (n int, empty bool) {
	switch {
	case p[0] == c.t.newline:
		return 1, true
	case p[0] == '\r' && len(p) > 1 && p[1] == '\n':
		return 2, true
	}
	if before := len(c.faults); !c.started && c.t.options.hasHeader() {
		defer func() { c.over = c.over || len(c.faults) > before }() // without a header nothing can be said of the rows
	}
	var f flaw
	c.fields, n, f = split(p, c.t.options.Delimiter, c.t.newline, final, c.fields[:0])
	switch f {
	case sound:
		c.csvFields(p[:n])
		return n, false
	case unended, unclosed:
		switch {
		case f == unended:
			c.tooLong()
			return c.skip(n), false
		case final:
			c.faultIn(p, n, "a quote that is never closed", `close it before the delimiter; write a quote within as ""`)
		default:
			c.faultIn(p, n, fmt.Sprintf("a quote that is not closed within %d bytes", MaxRow), `close it before the delimiter; write a quote within as ""`)
		}
		c.over = true // what is inside quotes from here on, and what is not, cannot be known
		return n, false
	case bareQuote:
		c.faultIn(p, n, "a quote inside a field that does not begin with one", `put the whole field in quotes, without blanks around them, and write a quote within as ""`)
	case trailing:
		c.faultIn(p, n, "text after a closing quote", `want the delimiter or the line's end; write a quote within as ""`)
	case bareCR:
		c.faultIn(p, n, "a carriage return without a line feed", "put the field in quotes, or end lines with LF or CR LF")
	}
	// Go on with the line after the flaw's.
	return c.skip(n), false
}

// csvFields checks the fields of a sound row.
func (c *checker) csvFields(row []byte) {
	if !c.checkText(row) {
		return
	}
	header := !c.started && c.t.options.hasHeader()
	c.started = true
	if header {
		c.header(row)
		return
	}
	if want := len(c.t.columns); len(c.fields) != want {
		than := "the header"
		if !c.t.options.hasHeader() {
			than = "the list of columns"
		}
		c.fault(c.line, 1, fmt.Sprintf("%s, where %s has %d", count(len(c.fields), "field"), than, want),
			fmt.Sprintf("want as many; a field that contains %q belongs in quotes", string(c.t.options.Delimiter)))
		return
	}
	c.keep(len(row))
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// header takes the names of the columns from the first row.
func (c *checker) header(row []byte) {
	if len(c.fields) > MaxColumns {
		c.fault(c.line, 1, fmt.Sprintf("%d columns", len(c.fields)), fmt.Sprintf("want at most %d", MaxColumns))
		c.over = true
		return
	}
	seen := map[string]bool{}
	for _, f := range c.fields {
		name := string(appendField(nil, row, f))
		if problem := checkName(name, seen); problem != "" {
			c.faultIn(row, int(f.begin), problem, "")
		}
		c.t.columns = append(c.t.columns, name)
	}
}

// checkText refuses a row that is not UTF-8.
func (c *checker) checkText(row []byte) bool {
	if utf8.Valid(row) {
		return true
	}
	for at := 0; at < len(row); {
		r, n := utf8.DecodeRune(row[at:])
		if r == utf8.RuneError && n == 1 {
			c.faultIn(row, at, fmt.Sprintf("byte 0x%02x, which is not UTF-8", row[at]), "want UTF-8: convert the file, for example with iconv -f LATIN1 -t UTF-8")
			break
		}
		at += n
	}
	return false
}

func (c *checker) jsonLine(p []byte, final bool) (n int, empty bool) {
	end := bytes.IndexByte(p, c.t.newline)
	switch {
	case end >= 0:
		n = end + 1
	case final:
		n = len(p)
	default:
		c.tooLong()
		return c.skip(0), false
	}
	line := p[:n]
	if len(bytes.TrimSpace(line)) == 0 {
		return n, true
	}
	if c.checkText(line) && c.jsonObject(line) {
		c.keep(n)
	}
	return n, false
}

// jsonObject checks a line of JSON Lines.
func (c *checker) jsonObject(line []byte) bool {
	if offset, problem := jsonpath.Check(line); problem != "" {
		c.faultIn(line, min(offset, len(bytes.TrimRight(line, "\r\n"))), "not JSON: "+problem, "want one JSON object a line")
		return false
	}
	if value := bytes.TrimLeft(line, " \t\r"); !bytes.HasPrefix(value, []byte("{")) {
		c.faultIn(line, len(line)-len(value), "not an object", `want one JSON object a line, such as {"name": "value"}`)
		return false
	}
	if !c.started && len(c.t.columns) == 0 {
		if !c.members(line) {
			return false
		}
	}
	c.started = true
	ok := true
	for i, path := range c.t.paths {
		if _, result := path.Find(line); result != jsonpath.Found {
			c.fault(c.line, 1, fmt.Sprintf("no value for the column %q, at %s", c.t.columns[i], path), "want one in every row")
			ok = false
		}
		if c.over {
			return false
		}
	}
	return ok
}

// members takes the names of the columns from the first object.
func (c *checker) members(line []byte) bool {
	names := jsonpath.Names(line)
	switch {
	case len(names) == 0:
		c.fault(c.line, 1, "an object without members", "want at least one, as the first object's members are the columns")
	case len(names) > MaxColumns:
		c.fault(c.line, 1, fmt.Sprintf("%d columns", len(names)), fmt.Sprintf("want at most %d", MaxColumns))
	default:
		for _, name := range names {
			c.t.columns = append(c.t.columns, name)
			c.t.paths = append(c.t.paths, jsonpath.Member(name))
		}
		return true
	}
	c.over = true
	return false
}
