package profile

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"
)

func TestGroupOf(t *testing.T) {
	for _, c := range []struct {
		function, mapping string
		want              Group
	}{
		{"main.handle", "", Own("main")},
		{"dyno/services/relay.(*passage).readAll", "", Own("dyno/services/relay")},
		{"gopkg.in/yaml%2ev3.(*parser).parse", "", Own("gopkg.in/yaml.v3")},
		{"main.Map[go.shape.struct { net/http.x int }]", "", Own("main")},
		{"ngx_http_process_request", "", Own("program")},
		{Unknown, "", Own("program")},
		{"pcre2_match_8", "libpcre2-8.so.0", Own("libpcre2-8.so.0")},
		{"envoy::Server::run(std::string)", "", Own("envoy")},
		{"<tokio::runtime::Runtime as core::ops::Drop>::drop", "", Own("tokio")},
		{"parse(std::string const&)", "", Own("program")},
		{"runtime.mallocgc", "", Memory},
		{"runtime.mallocgcSmallScanNoHeader", "", Memory},
		{"runtime.growslice", "", Memory},
		{"runtime.gcAssistAlloc", "", GC},
		{"runtime.(*sweepLocked).sweep", "", GC},
		{"runtime.findRunnable", "", Scheduler},
		{"runtime.futex", "", Scheduler},
		{"runtime.netpoll", "", Network},
		{"runtime.memmove", "", ""},
		{"runtime.chansend1", "", RuntimeOther},
		{"runtime.selectgo", "", RuntimeOther},
		{"runtime.entersyscall", "", SystemCalls},
		{"internal/runtime/syscall/linux.Syscall6", "", SystemCalls},
		{"internal/runtime/syscall.Syscall6", "", SystemCalls},
		{"syscall.Syscall", "", SystemCalls},
		{"golang.org/x/sys/unix.Read", "", SystemCalls},
		{"internal/poll.(*FD).Read", "", Network},
		{"net.(*conn).Read", "", Network},
		{"net/http.(*conn).serve", "", HTTP},
		{"net/netip.ParseAddr", "", ""},
		{"net/http/httptest.NewServer", "", HTTP},
		{"encoding/json.Marshal", "", Serialization},
		{"google.golang.org/protobuf/proto.Marshal", "", Serialization},
		{"example.org/api.(*Message).MarshalVT", "", Serialization},
		{"crypto/tls.(*Conn).Read", "", Crypto},
		{"crypto/internal/fips140/aes/gcm.gcmAesEnc", "", Crypto},
		{"strconv.Atoi", "", ""},
		{"sync.(*Mutex).Lock", "", ""},
		{"tcp_sendmsg", Kernel, Network},
		{"__tcp_transmit_skb", Kernel, Network},
		{"do_syscall_64", Kernel, SystemCalls},
		{"__x64_sys_futex", Kernel, Scheduler},
		{"__x64_sys_read", Kernel, SystemCalls},
		{"__x64_sys_munmap", Kernel, Memory},
		{"el0_svc", Kernel, SystemCalls},
		{"try_to_wake_up", Kernel, Scheduler},
		{"asm_sysvec_apic_timer_interrupt", Kernel, KernelOther},
		{"asm_exc_page_fault", Kernel, Memory},
		{"_raw_spin_unlock_irqrestore", Kernel, ""},
		{"malloc", "libc.so.6", Memory},
		{"read", "libc.so.6", SystemCalls},
		{"read", "", Own("program")}, // a program's own function may have any name
		{"__memmove_avx_unaligned_erms", "libc.so.6", ""},
		{"mallocx", "libjemalloc.so.2", Memory},
		{"EVP_EncryptUpdate", "libcrypto.so.3", Crypto},
		{"__vdso_clock_gettime", "[vdso]", ""},
		{"Grpc.AspNetCore.Server!Grpc.AspNetCore.Server.Internal.PipeExtensions.WriteMessage", "", Own("Grpc.AspNetCore.Server")},
		{"Microsoft.AspNetCore.Server.Kestrel.Core!Microsoft.AspNetCore.Server.Kestrel.Core.Internal.Http2.Http2FrameWriter.Write", "", HTTP},
		{"Microsoft.AspNetCore.Server.Kestrel.Transport.Sockets!Microsoft.AspNetCore.Server.Kestrel.Transport.Sockets.Internal.SocketReceiver.WaitForDataAsync", "", Network},
		{"System.Net.Sockets!Interop+Sys.ReceiveMessage", "", SystemCalls},
		{"System.Net.Sockets!System.Net.Sockets.Socket.Receive", "", Network},
		{"System.Private.CoreLib!System.Threading.ThreadPoolWorkQueue.Dispatch", "", Scheduler},
		{"System.Private.CoreLib!System.Buffers.SharedArrayPool`1[System.Byte].Rent", "", Memory},
		{"System.Private.CoreLib!System.Span`1[System.Byte].Slice", "", ""},
		{"System.IO.Pipelines!System.IO.Pipelines.Pipe.FlushAsync", "", ""},
		{"Google.Protobuf!Google.Protobuf.WritingPrimitives.WriteString", "", Serialization},
		{Unknown, "libcoreclr.so", RuntimeOther},
		{Unknown, "Microsoft.AspNetCore.Server.Kestrel.Core.dll", HTTP},
		{Unknown, "System.Private.CoreLib.dll", ""},
		{"Dyno.Echo!Dyno.Echo.Handlers.Echo", "dotnet", Own("Dyno.Echo")},
		{"a::operator!=(a::B const&, double)", "", Own("a")},
		{"operator!=(a::B const&, float)", "", Own("program")},
	} {
		got, reason := GroupOf(c.function, c.mapping)
		if got != c.want || reason == "" {
			t.Errorf("%s (%s): %q because %q; want %q", c.function, c.mapping, got, reason, c.want)
		}
	}
}

func TestClassify(t *testing.T) {
	k := func(names ...string) (s []Function) {
		for _, n := range names {
			s = append(s, Function{n, Kernel})
		}
		return s
	}
	u := func(names ...string) (s []Function) {
		for _, n := range names {
			s = append(s, Function{Name: n})
		}
		return s
	}
	for _, c := range []struct {
		name  string
		stack []Function
		want  Group
	}{
		{"what is copied in a socket call is the network's", append(k("rep_movs_alternative", "_copy_to_iter", "tcp_recvmsg", "do_syscall_64"), u("main.f")...), Network},
		{"what is only below the entry is the call's", append(k("fdget", "ksys_read", "do_syscall_64"), u("main.f")...), SystemCalls},
		{"an interrupt is not the code's that it hit", append(k("_raw_spin_unlock_irq", "some_driver"), u("main.f")...), KernelOther},
		{"a kernel that hides its names", append(k(Kernel), u("main.f")...), KernelOther},
		{"memmove works for its caller", u("runtime.memmove", "main.f"), Own("main")},
		{"also below the allocator", u("runtime.memclrNoHeapPointers", "runtime.mallocgc", "main.f"), Memory},
		{"the standard library works for its caller", u("strconv.Itoa", "main.f"), Own("main")},
		{"or for nobody", u("strconv.Itoa"), StandardLib},
		{"the collector helped by an allocation", u("runtime.scanobject", "runtime.gcAssistAlloc", "runtime.mallocgc", "main.f"), GC},
		{"a root alone", u("runtime.goexit"), RuntimeOther},
		{"a hot main of C", append(u("main"), Function{"__libc_start_call_main", "libc.so.6"}), Own("program")},
		{"a broken stack", []Function{{"__memcpy_avx_unaligned", "libc.so.6"}}, Own("libc.so.6")},
		{"nothing", nil, ""},
	} {
		if got := Classify(c.stack); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// Every rule must say why, and must matter: none may be hidden by those before it.
func TestRulesHaveReasons(t *testing.T) {
	for i, r := range rules {
		if r.reason == "" {
			t.Errorf("rule %d (%s) has no reason", i, r.group)
		}
		if len(r.names)+len(r.packages)+len(r.libraries) == 0 {
			t.Errorf("rule %d (%s) matches nothing", i, r.group)
		}
	}
}

// Groups of real servers under load.
func TestGroupsOfRecordedProfiles(t *testing.T) {
	for _, name := range []string{"relay", "relay-pprof", "nginx", "redis"} {
		t.Run(name, func(t *testing.T) {
			c, err := Table(recorded(t, name), "cpu")
			if err != nil {
				t.Fatal(err)
			}
			sum := 0.0
			for _, v := range c.Groups {
				sum += v
			}
			if math.Abs(sum-c.Total) > 1e-6*c.Total {
				t.Errorf("groups add up to %v of %v", sum, c.Total)
			}
			golden(t, name+".golden", table(c))
		})
	}
}

// table shows groups, and the functions that cost most with the group of each.
func table(c *Costs) []byte {
	var b bytes.Buffer
	for _, g := range dearest(c.Groups, func(g Group) string { return string(g) }) {
		fmt.Fprintf(&b, "%6.2f %%  %s\n", 100*c.Groups[g]/c.Total, g)
	}
	b.WriteByte('\n')
	functions := dearest(c.Flat, func(f Function) string { return f.Name + "\x00" + f.Mapping })
	for _, f := range functions[:min(30, len(functions))] {
		g, _ := GroupOf(f.Name, f.Mapping)
		if g == "" {
			g = "of its caller"
		}
		fmt.Fprintf(&b, "%6.2f %%  %6.2f %%  %s: %s\n", 100*c.Flat[f]/c.Total, 100*c.Cumulative[f]/c.Total, f, g)
	}
	return b.Bytes()
}

// dearest returns the keys of costs, the largest cost first.
func dearest[K comparable](costs map[K]float64, name func(K) string) []K {
	return slices.SortedFunc(maps.Keys(costs), func(a, b K) int {
		return cmp.Or(cmp.Compare(costs[b], costs[a]), cmp.Compare(name(a), name(b)))
	})
}

func TestIdlingIsNobodysTime(t *testing.T) {
	p := made("cpu", map[string]int64{"main.f": 3, "k:pv_native_safe_halt k:default_idle k:do_idle": 100, "k:poll_idle k:cpuidle_enter_state k:do_idle": 50})
	c, err := Table(p, "cpu")
	if err != nil {
		t.Fatal(err)
	}
	if c.Total != 3 || len(c.Flat) != 1 {
		t.Errorf("total %v of %v, want main.f alone", c.Total, c.Flat)
	}
}

func TestLibrary(t *testing.T) {
	for file, want := range map[string]bool{"/lib/libc.so.6": true, "libx.so": true, "/srv/program": false, "/srv/app/System.Private.CoreLib.dll": true, "/srv/dllfile": false, "/srv/a.song": false, "[vdso]": false} {
		if Library(file) != want {
			t.Errorf("%s: %v", file, !want)
		}
	}
}
