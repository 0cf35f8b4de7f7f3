package feed

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"

	"dyno/load/jsonpath"
)

// maxKept is the largest file that is kept in memory, in bytes. A larger one is mapped into it.
const maxKept = 4 << 20

// A Table is an open file of rows. It may be used by several goroutines at a time, each
// with cursors of its own.
type Table struct {
	name    string // the file's, as given
	options Options
	columns []string
	paths   []*jsonpath.Path // JSON Lines, by column

	rows index
	end  int64 // of the last row, in the file

	data    []byte // the whole file
	newline byte   // ends rows, perhaps after a CR: LF, or CR in a file without any LF

	mapped bool // data is a mapping of it
}

// An index holds where rows begin.
type index struct {
	blocks []*block
	rows   int
}

// blockRows is how many rows share one base. Rows of MaxRow bytes keep their distance from it below
// 2³². A block takes 16 KiB, a size class of Go.
const blockRows = 4094

type block struct {
	base     int64
	distance [blockRows]uint32
}

func (x *index) add(at int64) {
	k := x.rows % blockRows
	if k == 0 {
		x.blocks = append(x.blocks, &block{base: at})
	}
	b := x.blocks[len(x.blocks)-1]
	b.distance[k] = uint32(at - b.base)
	x.rows++
}

func (x *index) at(row int) int64 {
	b := x.blocks[row/blockRows]
	return b.base + int64(b.distance[row%blockRows])
}

// Open reads a file of rows from beginning to end. An error holds every fault of the
// options, or up to 20 faults of the file, each of type *Fault.
func Open(path string, o Options) (*Table, error) { return open(path, o, maxKept) }

func open(path string, o Options, kept int64) (*Table, error) {
	if err := o.Validate(path); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("feed: %w", err)
	}
	t := &Table{name: path, options: o.withDefaults(path)}
	// A mapping stays when its file is closed.
	if err := errors.Join(t.read(f, kept), f.Close()); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

// read checks the file and makes the index.
func (t *Table) read(f *os.File, kept int64) error {
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("feed: %w", err)
	}
	if !info.Mode().IsRegular() {
		return &Fault{File: t.name, Problem: "not a regular file", Hint: "want a file on disk, as rows are read in any order"}
	}
	size := info.Size()
	if size <= kept {
		t.data = make([]byte, size)
		if _, err := io.ReadFull(f, t.data); err != nil {
			return fmt.Errorf("feed: %s: %w", t.name, err)
		}
	} else if err := t.mapFile(f, size); err != nil {
		return err
	}
	for _, c := range t.options.Columns {
		t.columns = append(t.columns, c.Name)
	}
	if err := t.compilePaths(); err != nil {
		return err
	}
	check := checker{t: t}
	if !survive(func() { err = check.run() }) {
		return fmt.Errorf("feed: %s: the file became shorter while it was read; leave it alone until the run has ended", t.name)
	}
	if t.mapped && err == nil {
		// Pages that were read only once should not count as the process's memory.
		err = forget(t.data)
	}
	return err
}

// mapFile maps the whole file into memory.
func (t *Table) mapFile(f *os.File, size int64) error {
	if int64(int(size)) != size {
		return &Fault{File: t.name, Problem: fmt.Sprintf("%d bytes are more than the address space holds", size), Hint: "split the file"}
	}
	data, err := mapping(f, int(size))
	if err != nil {
		return fmt.Errorf("feed: %s: %w", t.name, err)
	}
	t.data, t.mapped = data, true
	return nil
}

// survive calls f, which reads the file's data. It returns false where the file has become shorter
// since it was mapped: the kernel answers that with a fault (SIGBUS). The Go runtime turns it into a
// panic of this goroutine on request.
func survive(f func()) (whole bool) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if reason := recover(); reason != nil {
			if _, isFault := reason.(interface{ Addr() uintptr }); !isFault {
				panic(reason)
			}
			whole = false
		}
	}()
	f()
	return true
}

// compilePaths makes the paths of the columns of JSON Lines.
func (t *Table) compilePaths() error {
	if t.options.Format != JSONLines {
		return nil
	}
	for _, c := range t.options.Columns {
		if c.Path == "" {
			t.paths = append(t.paths, jsonpath.Member(c.Name))
			continue
		}
		p, err := jsonpath.Compile(c.Path)
		if err != nil {
			return err
		}
		t.paths = append(t.paths, p)
	}
	return nil
}

// Name returns the file's name as it was given.
func (t *Table) Name() string { return t.name }

// Rows returns how many rows there are: at least one.
func (t *Table) Rows() int { return t.rows.rows }

// Columns returns the names of the columns.
func (t *Table) Columns() []string { return slices.Clone(t.columns) }

// Close releases the file. Cursors must not be used afterwards.
func (t *Table) Close() error {
	data := t.data
	t.data = nil
	if !t.mapped || data == nil {
		return nil
	}
	return unmap(data)
}

// span returns where a row stands in the file, its line end included.
func (t *Table) span(row int) (begin, end int64) {
	begin = t.rows.at(row)
	if row+1 == t.rows.rows {
		return begin, t.end
	}
	return begin, t.rows.at(row + 1)
}
