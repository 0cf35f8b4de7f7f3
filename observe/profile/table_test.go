package profile

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	pprof "github.com/google/pprof/profile"
	"pgregory.net/rapid"
)

func TestTable(t *testing.T) {
	p := made("cpu", map[string]int64{
		"main.leaf main.f main.main":                 10,
		"main.f main.main":                           5,
		"main.f main.leaf main.f main.main":          1, // recursion
		"libc.so.6:read main.main":                   2,
		"k:fdget k:do_syscall_64 libc.so.6:read":     4,
		"k:tcp_sendmsg k:do_syscall_64 main.main":    8,
		"libpcre2-8.so.0:[unknown] main.f main.main": 16,
	})
	c, err := Table(p, "cpu")
	if err != nil {
		t.Fatal(err)
	}
	want := &Costs{
		Value: "cpu", Unit: "nanoseconds", Total: 46,
		Flat: map[Function]float64{
			{"main.leaf", ""}: 10, {"main.f", ""}: 6, {"read", "libc.so.6"}: 2, {"fdget", Kernel}: 4, {"tcp_sendmsg", Kernel}: 8, {Unknown, "libpcre2-8.so.0"}: 16,
		},
		Cumulative: map[Function]float64{
			{"main.leaf", ""}: 11, {"main.f", ""}: 32, {"main.main", ""}: 42, {"read", "libc.so.6"}: 6, {"fdget", Kernel}: 4,
			{"do_syscall_64", Kernel}: 12, {"tcp_sendmsg", Kernel}: 8, {Unknown, "libpcre2-8.so.0"}: 16,
		},
		Groups: map[Group]float64{Own("main"): 16, SystemCalls: 6, Network: 8, Own("libpcre2-8.so.0"): 16},
	}
	if d := cmp.Diff(want, c); d != "" {
		t.Error(d)
	}
	if _, err := Table(p, "alloc_space"); err == nil || !strings.Contains(err.Error(), "want one of cpu") {
		t.Errorf("a value that is not there: %v", err)
	}
}

// Code of .NET that was compiled beforehand has no names. The assembly that it lies in says what it does.
func TestAssemblies(t *testing.T) {
	const kestrel, core = "Microsoft.AspNetCore.Server.Kestrel.Core.dll", "System.Private.CoreLib.dll"
	p := made("cpu", map[string]int64{
		kestrel + ":[unknown] " + core + ":[unknown]":                                                       4,
		core + ":[unknown] Google.Protobuf!Google.Protobuf.CodedInputStream.ReadTag Echo!Echo.Service.Call": 2,
		core + ":[unknown] Echo.dll:[unknown]":                                                              1,
	})
	for _, m := range p.Mapping {
		if strings.HasSuffix(m.File, ".dll") {
			m.File = "/opt/dotnet/shared/" + m.File
		}
	}
	c, err := Table(p, "cpu")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(map[Group]float64{HTTP: 4, Serialization: 2, Own("Echo.dll"): 1}, c.Groups); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(map[Function]float64{{Unknown, kestrel}: 4, {Unknown, core}: 3}, c.Flat); d != "" {
		t.Error(d)
	}
}

// A program's file may have another name in each build; its functions are the same.
func TestIdentityAcrossBuilds(t *testing.T) {
	build := func(file string, address uint64) *pprof.Profile {
		p := made("cpu", map[string]int64{"main.f": 5})
		p.Mapping[0].File, p.Location[0].Address = file, p.Mapping[0].Start+address
		return p
	}
	a, err := Table(build("/srv/old (deleted)", 8), "cpu")
	if err != nil {
		t.Fatal(err)
	}
	b, err := Table(build("/srv/new", 64), "cpu")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(a, b); d != "" {
		t.Error(d)
	}
}

func TestInlinedFunctionsAreTheirOwn(t *testing.T) {
	p := made("cpu", map[string]int64{"main.outer main.main": 5})
	inner := &pprof.Function{ID: 99, Name: "main.inner"}
	p.Function = append(p.Function, inner)
	for _, l := range p.Location {
		if l.Line[0].Function.Name == "main.outer" {
			l.Line = append([]pprof.Line{{Function: inner}}, l.Line...)
		}
	}
	c, err := Table(p, "cpu")
	if err != nil {
		t.Fatal(err)
	}
	if c.Flat[Function{Name: "main.inner"}] != 5 || c.Flat[Function{Name: "main.outer"}] != 0 || c.Cumulative[Function{Name: "main.outer"}] != 5 {
		t.Errorf("%+v", c)
	}
}

// stacks draws a profile.
func stacks(t *rapid.T, name string) *pprof.Profile {
	function := rapid.SampledFrom([]string{
		"main.a", "main.b", "main.c", "runtime.mallocgc", "k:tcp_ack", "k:do_syscall_64", "libc.so.6:read", "k:fdget", "strconv.Itoa", "runtime.memmove",
	})
	all := map[string]int64{}
	for range rapid.IntRange(0, 20).Draw(t, name+" stacks") {
		all[strings.Join(rapid.SliceOfN(function, 1, 6).Draw(t, name+" stack"), " ")] = rapid.Int64Range(1, 1000).Draw(t, name+" value")
	}
	return made("cpu", all)
}

// With any stacks, nothing is counted twice or lost.
func TestSumsHold(t *testing.T) {
	about := cmpopts.EquateApprox(1e-9, 1e-9)
	rapid.Check(t, func(t *rapid.T) {
		pa, pb := stacks(t, "a"), stacks(t, "b")
		a, err := Table(pa, "cpu")
		if err != nil {
			t.Fatal(err)
		}
		b, err := Table(pb, "cpu")
		if err != nil {
			t.Fatal(err)
		}
		var flat, groups float64
		for f, v := range a.Flat {
			flat += v
			if a.Cumulative[f] < v || a.Cumulative[f] > a.Total {
				t.Fatalf("%v: %v flat, %v cumulative, %v in all", f, v, a.Cumulative[f], a.Total)
			}
		}
		for _, v := range a.Groups {
			groups += v
		}
		if d := cmp.Diff([]float64{a.Total, a.Total}, []float64{flat, groups}, about); d != "" {
			t.Fatal(d)
		}
		if len(pa.Sample)+len(pb.Sample) == 0 {
			return
		}
		merged, err := Merge([]*pprof.Profile{pa, pb})
		if err != nil {
			t.Fatal(err)
		}
		both, err := Table(merged, "cpu")
		if err != nil {
			t.Fatal(err)
		}
		sum := map[Function]float64{}
		for _, m := range []map[Function]float64{a.Cumulative, b.Cumulative} {
			for f, v := range m {
				sum[f] += v
			}
		}
		if d := cmp.Diff(sum, both.Cumulative, about); d != "" {
			t.Fatal(d)
		}
	})
}

func TestMergeNothing(t *testing.T) {
	if _, err := Merge(nil); err == nil {
		t.Error("no profiles are no error")
	}
	other := made("cpu", map[string]int64{"main.f": 1})
	other.SampleType = append(other.SampleType, &pprof.ValueType{Type: "samples", Unit: "count"})
	other.Sample[0].Value = append(other.Sample[0].Value, 1)
	if _, err := Merge([]*pprof.Profile{made("cpu", nil), other}); err == nil {
		t.Error("profiles of different values are no error")
	}
}
