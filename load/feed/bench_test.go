package feed

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"dyno/load/pace"
)

func TestCursorDoesNotAllocate(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: counts allocations")
	}
	csvPath := write(t, "a.csv", "id,name\n1,\"a \"\"b\"\"\"\n22,cc\n333,\"é,é\"\n")
	jsonPath := write(t, "a.jsonl", "{\"id\":1,\"name\":\"a\\u00e9\"}\n{\"name\":{\"x\":1},\"id\":22}\n")
	for _, path := range []string{csvPath, jsonPath} {
		for _, s := range []sizes{usual, large} {
			table := mustOpen(t, path, Options{}, s)
			for order := range orders {
				c := table.Cursor(pace.Whole(), order, 1, Wrap)
				dst := make([]byte, 0, 100)
				next := func() {
					row, ok := c.Next()
					if !ok {
						t.Fatal(c.Err())
					}
					dst = row.Append(row.Append(dst[:0], 0), 1)
				}
				for range 20 {
					next()
				}
				if n := testing.AllocsPerRun(100, next); n != 0 {
					t.Errorf("%s, %v: %v allocations a row", path, order, n)
				}
			}
		}
	}
}

// million writes a table of a million users.
func million(b *testing.B, format Format) string {
	path := filepath.Join(b.TempDir(), "million."+format.String())
	f, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	w := bufio.NewWriterSize(f, 1<<20)
	line := "%d,user%07d@example.com,\"%s, %d\"\n"
	if format == JSONLines {
		line = "{\"id\":%d,\"email\":\"user%07d@example.com\",\"name\":\"%s, %d\"}\n"
	} else {
		fmt.Fprintln(w, "id,email,name")
	}
	for i := range 1_000_000 {
		fmt.Fprintf(w, line, i, i, "somebody with a name", i)
	}
	if err := w.Flush(); err != nil {
		b.Fatal(err)
	}
	if err := f.Close(); err != nil {
		b.Fatal(err)
	}
	return path
}

// heap returns how many bytes the heap holds.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// resident returns a field of /proc/self/status, such as RssAnon, in bytes.
func resident(tb testing.TB, field string) int64 {
	tb.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		tb.Fatal(err)
	}
	_, rest, found := strings.Cut(string(status), "\n"+field+":")
	var kib int64
	if _, err := fmt.Sscan(rest, &kib); !found || err != nil {
		tb.Fatalf("%s: %v", field, err)
	}
	return kib << 10
}

// countRows takes all rows that are left.
func countRows(c *Cursor) (rows int) {
	for _, ok := c.Next(); ok; _, ok = c.Next() {
		rows++
	}
	return rows
}

// What a table and a cursor hold does not grow with the text of the rows, and by four
// bytes with each row.
func TestMemoryPerRow(t *testing.T) {
	const rows = 200_000
	text := "id,text\n" + strings.Repeat("1,"+strings.Repeat("x", 97)+"\n", rows)
	path := write(t, "a.csv", text)
	size := int64(len(text))
	if size <= usual.keep {
		t.Fatalf("a file of %d bytes is kept", size)
	}
	before := heap()
	table := mustOpen(t, path, Options{}, usual)
	c := table.Cursor(pace.Whole(), Shuffled, 1, Stop)
	if n := countRows(c); n != rows {
		t.Fatalf("%d rows, want %d: %v", n, rows, c.Err())
	}
	held := heap() - before
	if most := int64(4*rows + 2<<20); held > most {
		t.Errorf("%d bytes are held for %d rows of %d bytes in all, want at most %d", held, rows, size, most)
	}
	runtime.KeepAlive(c)
}

// BenchmarkMillion opens a table of a million rows and takes each of them, in random order.
// It reports what the process holds: held-MB on the heap for table and cursor; anon-MB, all
// of the process's own memory; and file-MB, the pages of the mapping and of the program.
func BenchmarkMillion(b *testing.B) {
	for _, format := range []Format{CSV, JSONLines} {
		b.Run(format.String(), func(b *testing.B) {
			path := million(b, format)
			info, err := os.Stat(path)
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(info.Size())
			debug.FreeOSMemory()
			before := heap()
			var held, anon, file int64
			for b.Loop() {
				table, err := Open(path, Options{})
				if err != nil {
					b.Fatal(err)
				}
				c := table.Cursor(pace.Whole(), Shuffled, 1, Stop)
				if n := countRows(c); n != 1_000_000 {
					b.Fatalf("%d rows: %v", n, c.Err())
				}
				anon, file = resident(b, "RssAnon"), resident(b, "RssFile")
				held = heap() - before
				if err := table.Close(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(held)/1e6, "held-MB")
			b.ReportMetric(float64(anon)/1e6, "anon-MB")
			b.ReportMetric(float64(file)/1e6, "file-MB")
		})
	}
}

func BenchmarkNext(b *testing.B) {
	for _, format := range []Format{CSV, JSONLines} {
		path := million(b, format)
		for order := range orders {
			for _, shards := range []int{1, 16} {
				b.Run(fmt.Sprintf("%v/%v/%d-shards", format, order, shards), func(b *testing.B) {
					table := mustOpen(b, path, Options{}, usual)
					c := table.Cursor(pace.Shard{Index: 0, Count: shards}, order, 1, Wrap)
					var dst []byte
					b.ReportAllocs()
					for b.Loop() {
						row, ok := c.Next()
						if !ok {
							b.Fatal(c.Err())
						}
						dst = row.Append(row.Append(dst[:0], 0), 1)
					}
				})
			}
		}
	}
}

func BenchmarkPermutation(b *testing.B) {
	p := newPermutation(1_000_000, 1)
	for i := uint64(0); b.Loop(); i++ {
		p.at(i % p.n)
	}
}
