package http1

import (
	"bytes"

	"dyno/load/wire"
)

// fields are the requested fields of a header, in their order.
type fields struct {
	values []byte // one after the other
	ends   []fieldEnd
	list   []wire.MuxField // as they are delivered
}

// A fieldEnd is which name a field has, and where its value ends.
type fieldEnd struct{ name, end int }

func (f *fields) add(name int, value []byte) {
	f.values = append(f.values, value...)
	f.ends = append(f.ends, fieldEnd{name, len(f.values)})
}

// copy takes over the fields of another header.
func (f *fields) copy(o *fields) {
	f.values = append(f.values[:0], o.values...)
	f.ends = append(f.ends[:0], o.ends...)
}

// forgetFields drops the fields of an earlier header.
func (c *Client) forgetFields() {
	if c.own != nil {
		c.own.fields.values, c.own.fields.ends = c.own.fields.values[:0], c.own.fields.ends[:0]
	}
}

// Fields returns the fields that were asked for; see wire.Composer.
func (c *Client) Fields() []wire.MuxField {
	if c.own == nil {
		return nil
	}
	f := &c.own.fields
	f.list = f.list[:0]
	begin := 0
	for _, e := range f.ends {
		f.list = append(f.list, wire.MuxField{Name: e.name, Value: f.values[begin:e.end:e.end]})
		begin = e.end
	}
	return f.list
}

// keepLines notes the fields that were asked for among whole and sound lines.
func (c *Client) keepLines(lines []byte) {
	for len(lines) > 0 {
		end := bytes.IndexByte(lines, '\n')
		c.keepLine(lines[:end-1]) // without CR LF
		lines = lines[end+1:]
	}
}

// keepLine notes a field if it was asked for, of a sound line without its end. The header's limit
// bounds what is kept.
func (c *Client) keepLine(line []byte) {
	colon := bytes.IndexByte(line, ':')
	for i, name := range c.t.wanted {
		if len(name) == colon && equalFold(line[:colon], name) {
			c.own.fields.add(i, trimSpace(line[colon+1:]))
			return
		}
	}
}
