package feed

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"dyno/load/pace"
)

func TestCursorDoesNotAllocate(t *testing.T) {
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

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func BenchmarkOpenMillion(b *testing.B) {
	for _, format := range []Format{CSV, JSONLines} {
		b.Run(format.String(), func(b *testing.B) {
			path := million(b, format)
			info, err := os.Stat(path)
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(info.Size())
			before := heap()
			var held uint64
			for b.Loop() {
				table, err := Open(path, Options{})
				if err != nil {
					b.Fatal(err)
				}
				held = heap() - before
				if err := table.Close(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(held)/1e6, "MB-held")
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
