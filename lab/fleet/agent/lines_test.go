package agent

import (
	"fmt"
	"strings"
	"testing"
)

func TestLines(t *testing.T) {
	var l Lines
	for i := range maxLines + 2 {
		if i == 1 {
			if got := string(l.Text()); got != "0\n" {
				t.Errorf("%q", got)
			}
		}
		if n, err := fmt.Fprintf(&l, "%d\n", i); err != nil || n == 0 {
			t.Fatal(n, err)
		}
	}
	got := strings.Fields(string(l.Text()))
	if len(got) != maxLines || got[0] != "2" || got[maxLines-1] != fmt.Sprint(maxLines+1) {
		t.Errorf("%d lines, %s to %s", len(got), got[0], got[len(got)-1])
	}
	long := strings.Repeat("x", 2*maxLineBytes)
	if n, err := l.Write([]byte(long)); n != len(long) || err != nil {
		t.Error(n, err)
	}
	if got := string(l.Text()); !strings.HasSuffix(got, "\n"+long[:maxLineBytes]+"\n") {
		t.Error("a long line is not cut")
	}
}
