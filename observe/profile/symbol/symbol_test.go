package symbol

import (
	"bytes"
	"cmp"
	"debug/elf"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// instantiation is left out by Go's run time when it names a generic function.
var instantiation = regexp.MustCompile(`\[.*\]`)

// Our symbols of a Go program's file agree with the program itself.
func TestGoProgram(t *testing.T) {
	for _, c := range []struct {
		name  string
		flags []string
	}{
		{"plain", nil},
		{"stripped", []string{"-ldflags=-s -w"}},
		{"position independent", []string{"-buildmode=pie"}},
		{"position independent and stripped", []string{"-buildmode=pie", "-ldflags=-s -w"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			exe := filepath.Join(t.TempDir(), "program")
			build := exec.Command("go", append(append([]string{"build", "-o", exe}, c.flags...), "testdata/program/main.go")...)
			if out, err := build.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			out, err := exec.Command(exe).Output()
			if err != nil {
				t.Fatal(err)
			}
			r, err := os.Open(exe)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			f, err := Open(r)
			if err != nil {
				t.Fatal(err)
			}
			checked, inlined, generic := 0, 0, 0
			for stack := range strings.SplitSeq(strings.TrimSpace(string(out)), "\n\n") {
				lines := strings.Fields(stack) // offset, name, offset, name …
				var names []string
				for i := 1; i < len(lines); i += 2 {
					names = append(names, lines[i])
				}
				for i := range names {
					offset, err := strconv.ParseUint(lines[2*i], 10, 64)
					if err != nil {
						t.Fatal(err)
					}
					got := f.Lookup(offset)
					var short []string
					for _, name := range got {
						if strings.Contains(name, "[go.shape.") {
							generic++
						}
						short = append(short, instantiation.ReplaceAllString(name, "[...]"))
					}
					if want := names[i:min(i+max(len(short), 1), len(names))]; !slices.Equal(short, want) {
						t.Errorf("at %d: %q; the program says %q", offset, got, want)
					}
					checked++
					if len(got) >= 3 {
						inlined++
					}
				}
			}
			if checked < 15 || inlined < 3 || generic < 2 {
				t.Errorf("%d places, %d with inlined calls, %d in generic functions: the program is no test", checked, inlined, generic)
			}
		})
	}
}

// libc returns the C library of this machine.
func libc(t *testing.T) *os.File {
	t.Helper()
	found, err := filepath.Glob("/lib/*-linux-gnu/libc.so.6")
	if err != nil || len(found) == 0 {
		t.Skip("there is no glibc here")
	}
	f, err := os.Open(found[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// A stripped shared library still tells what others may call.
func TestSharedLibrary(t *testing.T) {
	r := libc(t)
	e, err := elf.NewFile(r)
	if err != nil {
		t.Fatal(err)
	}
	all, err := e.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	f, err := Open(r)
	if err != nil {
		t.Fatal(err)
	}
	if len(f.BuildID) != 40 {
		t.Errorf("build id %q", f.BuildID)
	}
	want := []string{"malloc", "qsort", "getaddrinfo"}
	for _, y := range all {
		if i := slices.Index(want, y.Name); i >= 0 && y.Section != elf.SHN_UNDEF {
			for _, at := range []uint64{y.Value, y.Value + y.Size - 1} {
				if got := f.At(at); len(got) != 1 || got[0] != y.Name {
					t.Errorf("%s at %#x: %q", y.Name, at, got)
				}
			}
			want = slices.Delete(want, i, i+1)
		}
	}
	if len(want) > 0 {
		t.Errorf("not found: %q", want)
	}
	if got := f.Lookup(1 << 40); got != nil {
		t.Errorf("beyond the file: %q", got)
	}
}

func TestVDSO(t *testing.T) {
	f, err := OpenVDSO()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(f.symbols, func(s span) bool { return strings.Contains(s.name, "clock_gettime") }) {
		t.Errorf("no clock_gettime among %v", f.symbols)
	}
}

func TestKernelOfThisMachine(t *testing.T) {
	k, err := OpenKernel()
	if err != nil {
		t.Fatal(err)
	}
	if len(k.functions) == 0 {
		t.Skip("kernel.kptr_restrict hides the kernel's symbols from this user")
	}
	if len(k.functions) < 10_000 {
		t.Errorf("%d functions", len(k.functions))
	}
}

func TestParseKernel(t *testing.T) {
	k, err := parseKernel(strings.NewReader(`ffffffff81000000 T _stext
ffffffff81000000 T _text
ffffffff81000010 t schedule.cold
ffffffff81000020 T __x64_sys_read
ffffffff81000020 T ksys
ffffffff81000040 D some_data
ffffffff81000060 t tls_sw_sendmsg	[tls]
nonsense
`))
	if err != nil {
		t.Fatal(err)
	}
	for address, want := range map[uint64]string{
		0xffffffff81000000: "", 0xffffffff81000015: "schedule", 0xffffffff81000020: "ksys", 0xffffffff8100005f: "ksys", 0xffffffff81000060: "tls_sw_sendmsg",
	} {
		if got := k.Lookup(address); got != want {
			t.Errorf("%#x: %q, want %q", address, got, want)
		}
	}
	hidden, err := parseKernel(strings.NewReader("0000000000000000 T _text\n0000000000000000 T schedule\n"))
	if err != nil || len(hidden.functions) > 0 || hidden.Lookup(5) != "" {
		t.Errorf("symbols that are hidden: %v, %q", err, hidden.Lookup(5))
	}
}

// A method of .NET is named by its assembly and type, whatever tier it was compiled in.
func TestManaged(t *testing.T) {
	for raw, want := range map[string]string{
		"instance void [System.Private.CoreLib] System.Threading.Thread::StartCallback()[Optimized]":                         "System.Private.CoreLib!System.Threading.Thread.StartCallback",
		"bool [Kestrel.Core] Http2.Http2Connection+<ProcessAsync>d__61::MoveNext(class [System] A, !!0)[OptimizedTier1-OSR]": "Kestrel.Core!Http2.Http2Connection+<ProcessAsync>d__61.MoveNext",
		"instance !0[] [App] A.List`1[System.__Canon]::ToArray()[Tier0]":                                                     "App!A.List`1[System.__Canon].ToArray",
		"int32[] [App] A.B::C[System.Int32](int32[])[Tier1]":                                                                 "App!A.B.C[System.Int32]",
		"stub<1> GenerateResolveStub": "stub<1> GenerateResolveStub",
		"A::f(int)":                   "A::f(int)",
		"A::f(int)[1]":                "A::f(int)[1]",
		"[App] f(int)[1]":             "[App] f(int)[1]",
	} {
		if got := Name(raw); got != want {
			t.Errorf("%s: got %s, want %s", raw, got, want)
		}
	}
}

func TestParseJIT(t *testing.T) {
	j, err := ParseJIT(strings.NewReader("1000 20 old\n0x1000 10 LazyCompile:~handle /srv/app.js:1:2\n2000 zz bad\n3000 0 empty\nffffffffffffffff 10 wraps\n4000 8 _ZN3foo3barEv\n"))
	if err != nil {
		t.Fatal(err)
	}
	for address, want := range map[uint64]string{
		0x1000: "LazyCompile:~handle /srv/app.js:1:2", 0x100f: "LazyCompile:~handle /srv/app.js:1:2", 0x1010: "", 0x2000: "", 0x3000: "", 0x4000: "foo::bar()", 0xfff: "",
	} {
		if got := j.Lookup(address); got != want {
			t.Errorf("%#x: %q, want %q", address, got, want)
		}
	}
}

func TestName(t *testing.T) {
	for raw, want := range map[string]string{
		"main.(*T).f":                       "main.(*T).f",
		"dyno/x.part.0":                     "dyno/x.part.0", // Go: the package's path says so
		"ngx_http.constprop.0":              "ngx_http",
		"f.isra.0.cold":                     "f",
		"read@@GLIBC_2.2.5":                 "read",
		"_ZNSt6vectorIiSaIiEE9push_backEOi": "std::vector<int, std::allocator<int> >::push_back(int&&)",
		"_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE": "core::fmt::Write::write_fmt",
	} {
		if got := Name(raw); got != want {
			t.Errorf("%s: %q, want %q", raw, got, want)
		}
	}
}

func TestCache(t *testing.T) {
	var c Cache
	r := libc(t)
	a, err := c.File(r)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := c.File(r); err != nil || a != b {
		t.Errorf("read twice: %v", err)
	}
	d, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if _, err := c.File(d); err == nil || !strings.Contains(err.Error(), "no regular file") {
		t.Errorf("a folder: %v", err)
	}
	text, err := os.Open("symbol_test.go")
	if err != nil {
		t.Fatal(err)
	}
	defer text.Close()
	if _, err := c.File(text); err == nil || !strings.Contains(err.Error(), "symbol_test.go") {
		t.Errorf("a text: %v", err)
	}
}

// Memory of a file must not depend on what the file says its size is.
func FuzzOpen(f *testing.F) {
	if self, err := os.ReadFile("/proc/self/exe"); err == nil {
		f.Add(self[:min(len(self), 4096)], uint64(64))
	}
	f.Add([]byte("\x7fELF"), uint64(1))
	f.Fuzz(func(_ *testing.T, b []byte, offset uint64) {
		if file, err := Open(bytes.NewReader(b)); err == nil {
			file.Lookup(offset)
			file.At(offset)
		}
	})
}

// smallTable is a pclntab of one function with one inlined call, made by hand.
func smallTable() []byte {
	le := binary.LittleEndian
	names := []byte("\x00main.outer\x00main.inner\x00")
	pcs := []byte{0, 2, 16} // value -1+1 = 0 for 16 bytes
	record := make([]byte, pclnFuncBytes)
	le.PutUint32(record[4:], 1)
	le.PutUint32(record[28:], 3)
	record[43] = 4
	record = append(record, make([]byte, 4*7)...)
	le.PutUint32(record[pclnFuncBytes+8:], 1) // pcdata 2 at 1
	functab := make([]byte, 12)
	le.PutUint32(functab[4:], 12)
	le.PutUint32(functab[8:], 16)
	funcs := append(functab, record...)
	head := le.AppendUint32(nil, pclnMagic)
	head = append(head, 0, 0, 1, 8)
	const at = 8 + 8*pclnHeadWords
	for _, w := range []int{1, 0, 0, at, 0, 0, at + len(names), at + len(names) + len(pcs)} {
		head = le.AppendUint64(head, uint64(w))
	}
	return slices.Concat(head, names, pcs, funcs)
}

func smallInlines() []byte {
	call := make([]byte, inlinedCallSize)
	binary.LittleEndian.PutUint32(call[4:], 12)
	binary.LittleEndian.PutUint32(call[8:], 20) // its call is where nothing is inlined
	return call
}

func FuzzGoTable(f *testing.F) {
	f.Add(smallTable(), smallInlines(), uint64(0x1005))
	f.Fuzz(func(t *testing.T, b, inlines []byte, address uint64) {
		table, err := newGoTable(b, binary.LittleEndian, 0x1000)
		if err != nil {
			return
		}
		table.inlines = inlines
		if n := len(table.find(address)); n > maxInlineDepth+1 {
			t.Errorf("%d names", n)
		}
	})
}

func FuzzParseJIT(f *testing.F) {
	f.Add("1000 20 f\n1010 5 g\n", uint64(0x1012))
	f.Fuzz(func(t *testing.T, text string, address uint64) {
		j, err := ParseJIT(strings.NewReader(text))
		if err != nil {
			return
		}
		if name := j.Lookup(address); name != "" && len(j.functions) == 0 {
			t.Errorf("%q of no functions", name)
		}
		if !slices.IsSortedFunc(j.functions, func(a, b span) int { return cmp.Compare(a.start, b.start) }) {
			t.Error("not in order")
		}
	})
}
