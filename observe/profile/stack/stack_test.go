package stack

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"dyno/internal/leak"
	"dyno/observe/profile"
	"dyno/observe/profile/symbol"

	"github.com/google/go-cmp/cmp"
	pprof "github.com/google/pprof/profile"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { leak.Main(m) }

func TestParseMaps(t *testing.T) {
	got := ParseMaps(strings.NewReader(`00400000-00500000 r-xp 00001000 fe:00 1234                               /srv/a program
00500000-00600000 rw-p 00101000 fe:00 1234                               /srv/a program
7f0000000000-7f0000001000 r-xp 00000000 00:00 0
7f0000002000-7f0000003000 r-xp 00000000 00:00 0                          [vdso]
7f0000004000-7f0000003000 r-xp 00000000 00:00 0
nonsense
`))
	want := []Mapping{
		{0x400000, 0x500000, 0x1000, "/srv/a program", 1234}, {0x7f0000000000, 0x7f0000001000, 0, "", 0}, {0x7f0000002000, 0x7f0000003000, 0, "[vdso]", 0},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// The newest mapping has an address, whatever the order and overlap.
func TestMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const size = 64
		p := NewProcess(1)
		var owner [size]uint64 // which mapping, by its offset's high part
		for i := range rapid.IntRange(1, 12).Draw(t, "mappings") {
			from := rapid.Uint64Range(0, size-1).Draw(t, "from")
			to := rapid.Uint64Range(from, size).Draw(t, "to")
			base := uint64(i+1) << 32
			p.Map(Mapping{Start: from, End: to, Offset: base + from})
			for a := from; a < to; a++ {
				owner[a] = base
			}
		}
		child := p.Fork(2)
		p.Map(Mapping{Start: 0, End: size}) // is no business of the child's
		for a := range uint64(size) {
			m := child.find(a)
			switch {
			case m == nil && owner[a] != 0:
				t.Fatalf("nothing at %d, want mapping %d", a, owner[a]>>32)
			case m != nil && a-m.Start+m.Offset != owner[a]+a:
				t.Fatalf("at %d offset %x, want %x", a, a-m.Start+m.Offset, owner[a]+a)
			}
		}
	})
}

var types = []*pprof.ValueType{{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"}}

// A collector of our own process names our own functions.
func TestProfileOfThisProcess(t *testing.T) {
	self, err := ReadProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	c := New(2, new(symbol.Cache))
	here := pcs()
	c.Add(self, nil, here, 1, 10)
	c.Add(self, nil, here, 2, 20)
	c.Add(self, []uint64{1<<64 - 1<<20}, here, 4, 40)
	c.Add(self, nil, []uint64{8}, 1, 1) // nothing is there
	c.Add(self, nil, nil, 1, 1)
	p, err := c.Profile(types, 10, time.Unix(1, 0), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if len(p.Sample) != 4 {
		t.Errorf("%d stacks, want 4: the same stack is one", len(p.Sample))
	}
	costs, err := profile.Table(p, "cpu")
	if err != nil {
		t.Fatal(err)
	}
	if got := costs.Cumulative[profile.Function{Name: "dyno/observe/profile/stack.TestProfileOfThisProcess"}]; got != 70 {
		t.Errorf("this test has %v of 70; %v", got, costs.Cumulative)
	}
	if got := costs.Flat[profile.Function{Name: Unknown}]; got != 2 {
		t.Errorf("what is not known has %v of 2", got)
	}
	if !strings.Contains(filepath.Base(p.Mapping[0].File), "stack.test") {
		t.Errorf("the first mapping is %s, not the program", p.Mapping[0].File)
	}
}

// Processes of one program have it at different addresses; their stacks are the same.
func TestProcessesOfOneProgram(t *testing.T) {
	self, err := ReadProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	moved := NewProcess(os.Getpid())
	const by = 1 << 30
	for _, m := range self.mappings {
		if m.Inode != 0 {
			moved.Map(Mapping{m.Start + by, m.End + by, m.Offset, m.Path, m.Inode})
		}
	}
	c := New(2, nil)
	here := pcs()[:2]
	c.Add(self, nil, here, 1, 10)
	c.Add(moved, nil, []uint64{here[0] + by, here[1] + by}, 1, 10)
	if len(c.stacks) != 1 {
		t.Errorf("%d stacks, want one", len(c.stacks))
	}
	p, err := c.Profile(types, 10, time.Unix(1, 0), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if n := p.Function[0].Name; n != "dyno/observe/profile/stack.TestProcessesOfOneProgram" || p.Sample[0].Value[0] != 2 {
		t.Errorf("%d in %q", p.Sample[0].Value[0], n)
	}
}

func TestCollectorIsBounded(t *testing.T) {
	c := New(1, nil)
	p := NewProcess(1)
	for i := range uint64(maxStacks + 10) {
		c.Add(p, nil, []uint64{i}, 1)
	}
	if c.Dropped != 10 {
		t.Errorf("%d dropped, want 10", c.Dropped)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// The file is opened while the process is there, by any of several names.
func TestFilesThatAreGone(t *testing.T) {
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Skip("there is no sleep")
	}
	b, err := os.ReadFile(sleep)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(file, b, 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(file, "1000")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Wait() }()
	defer func() { _ = cmd.Process.Kill() }()
	// Start returns as soon as exec has closed the parent's pipe, which it does
	// before it maps the program.
	var p *Process
	isMapped := func(m *mapped) bool { return strings.HasPrefix(m.Path, file) }
	for p == nil || !slices.ContainsFunc(p.mappings, isMapped) {
		if p, err = ReadProcess(cmd.Process.Pid); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	// Another program takes its name: it must not be read in place of the first.
	if err := os.WriteFile(file, []byte("another"), 0o700); err != nil {
		t.Fatal(err)
	}
	m := p.mappings[slices.IndexFunc(p.mappings, isMapped)]
	o := open(m)
	if o.file == nil {
		t.Fatal("the file of a running program was not found")
	}
	defer o.file.Close()
	info, err := o.file.Stat()
	if err != nil {
		t.Fatal(err)
	}
	if st, ok := info.Sys().(*syscall.Stat_t); !ok || st.Ino != m.Inode || info.Size() != int64(len(b)) {
		t.Errorf("%s of %d bytes, want %d", o.file.Name(), info.Size(), len(b))
	}
}

func TestJITMap(t *testing.T) {
	const start = 0x12340000
	name := "/tmp/perf-" + strconv.Itoa(os.Getpid()) + ".map"
	if err := os.WriteFile(name, []byte("12340000 100 compiled handle\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := os.Remove(name); err != nil {
			t.Error(err)
		}
	}()
	p := NewProcess(os.Getpid())
	p.Map(Mapping{Start: start, End: start + 0x1000, Path: "//anon"})
	c := New(2, nil)
	c.Add(p, nil, []uint64{start + 0x20}, 1, 1)
	got, err := c.Profile(types, 1, time.Unix(1, 0), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if n := got.Function[0].Name; n != "compiled handle" {
		t.Errorf("%q", n)
	}
}

func TestInnerPID(t *testing.T) {
	if got := innerPID([]byte("Name:\tx\nNSpid:\t4711\t12\nNSpgid:\t1\n"), "0"); got != "12" {
		t.Errorf("%q", got)
	}
	if got := innerPID([]byte("Name:\tx\n"), "5"); got != "5" {
		t.Errorf("%q", got)
	}
}

// pcs returns the stack of the caller as the kernel would: return addresses.
func pcs() []uint64 {
	var b [16]uintptr
	all := make([]uint64, 0, len(b))
	for _, pc := range b[:runtime.Callers(2, b[:])] {
		all = append(all, uint64(pc))
	}
	return all
}
