package feed

import (
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
