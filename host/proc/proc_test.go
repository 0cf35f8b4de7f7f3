package proc

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

const statText = "4711 (a) b (c) S 1 4711 4710 0 -1 4194564 1 0 0 0 3 4 5 6 20 0 7 0 81857 3133440 361 18446744073709551615\n"

func TestParse(t *testing.T) {
	stat := func(fields string) string { return "1 (x) " + fields + " 0 0 0 0 0 0 0 0 0 0 0 0" }
	for _, c := range []struct {
		text string
		want Process
		err  string
	}{
		{text: statText, want: Process{PID: 4711, Parent: 1, Group: 4711, Session: 4710, State: 'S', Flags: 4194564, Start: 81857}},
		{text: "", err: "no name"},
		{text: ") 1 (", err: "no name"},
		{text: "x" + statText, err: "stat: pid"},
		{text: "1 (init) S 0 1 1 0 -1", err: "6 fields"},
		{text: stat("S x 1 1 0 -1 0 0") + " 5", err: "stat: field 4"},
		{text: stat("S 0 1 1 0 -1 x 0") + " 5", err: "stat: flags"},
		{text: stat("S 0 1 1 0 -1 0") + " x", err: "stat: start time"},
	} {
		got, err := Parse([]byte(c.text))
		if c.err == "" && (err != nil || got != c.want) || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%q: %+v, %v; want %+v, %q", c.text, got, err, c.want, c.err)
		}
	}
	if p := (Process{Flags: 4194564}); !p.Exiting() {
		t.Errorf("%+v does not exit", p)
	}
	if p := (Process{Flags: 4194560}); p.Exiting() {
		t.Errorf("%+v exits", p)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{statText, "", "1 () R", ")(", "1 (x) S 1 1 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 x"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := Parse(b)
		if err != nil {
			return
		}
		// Format what was parsed, and parse it again.
		again, err := Parse(fmt.Appendf(nil, "%d (x) %c %d %d %d 0 0 %d 0 0 0 0 0 0 0 0 0 0 0 0 %d", p.PID, p.State, p.Parent, p.Group, p.Session, p.Flags, p.Start))
		if err != nil || again != p {
			t.Errorf("%q: %+v, then %+v, %v", b, p, again, err)
		}
	})
}

func TestBelow(t *testing.T) {
	// A cycle is impossible, but a snapshot that is not atomic must not hang.
	all := []Process{
		{PID: 1, Parent: 0}, {PID: 10, Parent: 1}, {PID: 11, Parent: 10}, {PID: 12, Parent: 11},
		{PID: 20, Parent: 1}, {PID: 30, Parent: 31}, {PID: 31, Parent: 30}, {PID: 13, Parent: 10},
	}
	var got []int
	for _, p := range Below(all, 10) {
		got = append(got, p.PID)
	}
	if !slices.Equal(got, []int{11, 13, 12}) {
		t.Errorf("%v", got)
	}
	if got := Below(all, 30); len(got) > 2 {
		t.Errorf("a cycle gives %v", got)
	}
}

// The list contains this process, with this thread.
func TestThisProcess(t *testing.T) {
	self := os.Getpid()
	all, err := All()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(all, func(p Process) bool { return p.PID == self })
	if i < 0 || all[i].Parent != os.Getppid() || all[i].Exiting() {
		t.Fatalf("process %d at %d of %d", self, i, len(all))
	}
	tids, err := Threads(self)
	if err != nil || !slices.Contains(tids, self) {
		t.Errorf("threads %v, %v", tids, err)
	}
	if p, err := ReadThread(self, self); err != nil || p.PID != self {
		t.Errorf("%+v, %v", p, err)
	}
	for _, err := range []error{func() error { _, err := Read(-1); return err }(), func() error { _, err := Threads(-1); return err }()} {
		if err == nil {
			t.Error("found a process with a number below 0")
		}
	}
}
