package output

import (
	"strings"
	"testing"
)

func TestTable(t *testing.T) {
	var b strings.Builder
	err := Table(&b, [][]string{{"NAME", "STATE"}, {"a\nb  idle", "x\ty"}, {"\x1b[2Jc", ""}})
	if want := "NAME          STATE\na b idle      x y\n<U+001B>[2Jc  \n"; err != nil || b.String() != want {
		t.Errorf("%v: %q, want %q", err, b.String(), want)
	}
}
