package feed

import (
	"fmt"

	"dyno/load/jsonpath"
	"dyno/load/pace"
)

// A Cursor goes through one shard's share of a table's rows. It is for one goroutine at a time. None of
// its methods allocates once its buffers have the size of the longest row.
type Cursor struct {
	t     *Table
	shard pace.Shard
	order Order
	end   End
	seed  uint64

	pass  uint64
	at    uint64      // the position in the pass that is next; at the number of rows or beyond: in a later pass
	mixed permutation // of this pass

	row    []byte // a copy
	number int
	fields []field // CSV: of the row

	over bool
	err  error
}

// Cursor returns a cursor on the rows of a shard. Positions count on through the passes. Position p
// belongs to the shard that owns number p of the whole: the shards together have every position once,
// whatever their number. The seed decides what Shuffled and Random take; cursors of one table with the
// same order, end and seed share the rows out. With Random and Stop there are as many rows as the table
// has, some of them several times. Cursor panics if the shard is not valid.
func (t *Table) Cursor(shard pace.Shard, order Order, seed uint64, end End) *Cursor {
	if err := shard.Validate(); err != nil {
		panic("feed: " + err.Error())
	}
	c := &Cursor{t: t, shard: shard, order: order, end: end, seed: pace.Mix(seed), at: uint64(shard.Index)}
	c.begin()
	return c
}

// begin makes ready for the present pass.
func (c *Cursor) begin() {
	if c.order == Shuffled {
		c.mixed = newPermutation(uint64(c.t.Rows()), pace.Mix(c.seed+c.pass))
	}
}

// Next goes to the next row. It returns false when there is none, or when the file can no longer be
// read; Err tells which. The row is valid until the next call.
func (c *Cursor) Next() (Row, bool) {
	if c.over {
		return Row{}, false
	}
	rows := uint64(c.t.Rows())
	if c.at >= rows {
		if c.end == Stop {
			c.over = true
			return Row{}, false
		}
		c.pass += c.at / rows
		c.at %= rows
		c.begin()
	}
	at := c.at
	switch c.order {
	case Shuffled:
		at = c.mixed.at(at)
	case Random:
		at = below(pace.Mix(c.seed+pace.Mix(c.pass*rows+at)), rows)
	}
	c.at += uint64(c.shard.Count)
	c.number = int(at)
	if c.err = c.load(); c.err != nil {
		c.over = true
		return Row{}, false
	}
	return Row{c}, true
}

// Err returns why the file can no longer be read; nil at the end of the rows.
func (c *Cursor) Err() error { return c.err }

// load gets the row of the present number.
func (c *Cursor) load() error {
	begin, end := c.t.span(c.number)
	if !survive(func() { c.row = append(c.row[:0], c.t.data[begin:end]...) }) {
		return c.changed()
	}
	if c.t.options.Format == CSV {
		var n int
		var f flaw
		c.fields, n, f = split(c.row, c.t.options.Delimiter, c.t.newline, end == c.t.end, c.fields[:0])
		if f != sound || n != len(c.row) || len(c.fields) != len(c.t.columns) {
			return c.changed()
		}
	}
	return nil
}

// changed is the error of a row that was sound when the table was opened.
func (c *Cursor) changed() error {
	return fmt.Errorf("feed: %s: row %d: the file has changed since it was opened; leave it alone until the run has ended", c.t.name, c.number+1)
}

// A Row is the row that a cursor is at.
type Row struct{ c *Cursor }

// Number returns which row of the table it is, from 0.
func (r Row) Number() int { return r.c.number }

// Append appends the text of a column: without quotes and escapes. A value of JSON
// Lines that is no string is appended as it is written.
func (r Row) Append(dst []byte, column int) []byte {
	c := r.c
	if c.t.options.Format == CSV {
		return appendField(dst, c.row, c.fields[column])
	}
	value, result := c.t.paths[column].Find(c.row)
	if result != jsonpath.Found {
		c.over, c.err = true, c.changed()
		return dst
	}
	return jsonpath.AppendText(dst, value)
}
