package profile

// rules are applied in this order to each function of a stack; the first that matches decides. Kernel
// names are those in Linux 5.10 to 6.18, on amd64 and arm64.
var rules = []rule{
	// The kernel.
	{in: inKernel, group: Scheduler, reason: "chooses, switches and wakes threads, and futexes are how they wait for each other", names: []string{
		"schedule", "schedule_*", "__schedule*", "preempt_schedule*", "finish_task_switch*", "__switch_to*", "context_switch",
		"try_to_wake_up", "wake_up_process", "wake_up_q", "default_wake_function", "ttwu_*", "sched_*", "__sched_*", "select_task_rq*",
		"enqueue_task*", "dequeue_task*", "enqueue_entity", "dequeue_entit*", "pick_next_*", "pick_task*", "put_prev_*", "set_next_*",
		"update_curr*", "update_load_avg*", "resched_*", "prepare_task_switch", "do_sched_yield", "yield_task*",
		"do_futex", "futex_*", "__futex_*", "__x64_sys_futex", "__arm64_sys_futex", "__x64_sys_sched_yield", "__arm64_sys_sched_yield",
		"do_nanosleep", "hrtimer_nanosleep", "__x64_sys_nanosleep", "__arm64_sys_nanosleep",
	}},
	{in: inKernel, group: Crypto, reason: "encrypts: kernel TLS and the kernel's ciphers", names: []string{
		"tls_*", "crypto_*", "aesni_*", "aes_*", "gcm_*", "gcmaes_*", "chacha*", "poly1305*", "sha256_*",
	}},
	{in: inKernel, group: Network, reason: "sockets, TCP/IP, and the network's softirq, whatever it interrupted", names: []string{
		"tcp_*", "__tcp_*", "bictcp_*", "cubictcp_*", "bbr_*", "udp_*", "__udp_*", "ip_*", "__ip_*", "ip6_*", "ipv6_*", "ipv4_*",
		"inet_*", "inet6_*", "__inet_*", "sock_*", "__sock_*", "sockfd_*", "sk_*", "__sk_*", "skb_*", "__skb_*", "kfree_skb*", "consume_skb",
		"__alloc_skb", "alloc_skb*", "__kfree_skb", "napi_*", "__napi_*", "net_rx_action", "net_tx_action", "process_backlog",
		"netif_*", "__netif_*", "dev_queue_xmit*", "dev_hard_start_xmit", "__dev_*", "loopback_xmit", "nf_*", "ipt_*", "nft_*", "xfrm_*",
		"neigh_*", "eth_*", "qdisc_*", "__qdisc*", "sch_direct_xmit", "fib_*", "unix_*", "veth_*", "virtnet_*", "validate_xmit*",
		"enqueue_to_backlog", "lock_sock*", "release_sock", "__release_sock", "__lock_sock*", "aa_sk_perm", "selinux_socket*", "security_socket*",
	}},
	{in: inKernel, group: Memory, reason: "gives pages to the process, at system calls for memory and at first touch", names: []string{
		"handle_mm_fault", "__handle_mm_fault", "do_user_addr_fault", "exc_page_fault", "asm_exc_page_fault", "do_anonymous_page",
		"clear_page*", "do_page_fault", "do_mem_abort", "do_translation_fault", "el0_da", "el0_ia",
		"vm_mmap*", "ksys_mmap*", "do_mmap", "__vm_munmap", "do_vmi_*", "do_madvise*", "madvise_*", "do_mprotect*",
		"__x64_sys_mmap", "__x64_sys_munmap", "__x64_sys_madvise", "__x64_sys_brk", "__x64_sys_mprotect",
		"__arm64_sys_mmap", "__arm64_sys_munmap", "__arm64_sys_madvise", "__arm64_sys_brk", "__arm64_sys_mprotect",
	}},
	{in: inKernel, group: SystemCalls, reason: "the entry to the kernel, and what below it is in no other group", names: []string{
		"do_syscall_64", "x64_sys_call", "entry_SYSCALL*", "entry_SYSRET*", "syscall_*", "__x64_sys_*", "__arm64_sys_*", "ksys_*",
		"el0_svc*", "do_el0_svc*", "invoke_syscall*", "el0t_64_sync*",
	}},
	{in: inKernel, group: KernelOther, reason: "interrupts, timers and the kernel's own threads, whatever they interrupted", names: []string{
		"asm_sysvec_*", "sysvec_*", "asm_common_interrupt", "common_interrupt", "asm_exc_*", "el0_irq*", "__el0_irq*", "el0t_64_irq*",
		"hrtimer_interrupt", "run_timer_softirq", "rcu_*", "tick_*", "ret_from_fork*", "kthread", "worker_thread", "perf_*", "bpf_*",
	}},

	// Shared libraries and C.
	{group: Memory, reason: "allocates", names: []string{
		"malloc", "free", "calloc", "realloc", "cfree", "_int_malloc", "_int_free*", "_int_realloc", "malloc_consolidate", "sysmalloc",
		"unlink_chunk", "tcache_*", "memalign", "posix_memalign", "aligned_alloc", "__libc_malloc", "__libc_free", "__libc_calloc",
		"__libc_realloc", "je_*", "mi_*", "tc_*", "operator new*", "operator delete*", "zmalloc*", "zfree*", "zcalloc*", "zrealloc*",
		"ztrymalloc*", "__rust_alloc*", "__rust_dealloc*", "__rust_realloc*", "__rdl_*", "alloc::alloc::*", "alloc::raw_vec::*",
	}, libraries: []string{"libjemalloc*", "libtcmalloc*", "libmimalloc*"}},
	{in: inLibc, group: Scheduler, reason: "threads wait for each other", names: []string{
		"pthread_mutex_*", "__pthread_mutex_*", "pthread_cond_*", "__pthread_cond_*", "pthread_rwlock_*", "__lll_*", "sem_*", "sched_yield",
		"__futex_*", "nanosleep", "clock_nanosleep", "usleep",
	}},
	{in: inLibc, group: SystemCalls, reason: "the user side of a system call", names: []string{
		"syscall", "read", "write", "readv", "writev", "pread*", "pwrite*", "recv", "recvfrom", "recvmsg", "recvmmsg", "send", "sendto",
		"sendmsg", "sendmmsg", "sendfile*", "splice", "epoll_*", "poll", "select", "ppoll", "pselect", "accept", "accept4", "connect",
		"shutdown", "socket", "setsockopt", "getsockopt", "open*", "close", "fcntl*", "ioctl", "fsync", "fdatasync", "getpid", "mmap*",
		"munmap", "madvise", "brk", "sbrk", "stat*", "fstat*",
		"__read*", "__write*", "__libc_read", "__libc_write", "__libc_recv*", "__libc_send*", "__libc_accept", "__libc_connect", "__send*",
		"__recv*", "__connect", "__poll", "__select", "__close*", "__open*", "__epoll*", "__fcntl*", "__ioctl", "__syscall*",
	}},
	{in: inLibc, reason: "the C library copies, compares and formats for its caller", names: []string{"*"}},
	{reason: "reads the clock for its caller", libraries: []string{"[vdso]"}},
	{reason: "copies and compares for its caller", names: []string{"memcpy*", "memmove*", "memset*", "memcmp*", "__memcpy*", "__memmove*", "__memset*"}},
	{group: Crypto, reason: "TLS and ciphers", libraries: []string{"libssl*", "libcrypto*", "libgnutls*", "libnss3*", "libmbed*"},
		names: []string{"rustls::*", "ring::*", "SSL_*", "EVP_*"}},
	{group: Serialization, reason: "turns values into bytes and back, or packs them", libraries: []string{"libprotobuf*", "libz.so*", "libzstd*", "libbrotli*", "libjson*"},
		names: []string{"serde_json::*", "serde::*", "prost::*", "google::protobuf::*", "rapidjson::*", "simdjson::*", "deflate*", "inflate*", "crc32*"}},
	{group: HTTP, reason: "parses and writes HTTP", libraries: []string{"libnghttp2*", "libllhttp*", "libhttp_parser*"},
		names: []string{"http_parser_*", "llhttp_*", "phr_*", "nghttp2_*", "ngx_http_parse_*", "hyper::*", "h2::*", "httparse::*"}},

	// .NET: names are assembly!Type.Method. Code that was compiled beforehand has no names; the
	// file that it lies in stands for its assembly.
	{group: SystemCalls, reason: "the user side of a system call", libraries: []string{"libSystem.Native.so"},
		names: []string{"System.Private.CoreLib!Interop*", "System.Net.Sockets!Interop*"}},
	{group: RuntimeOther, reason: "the run time of .NET, whose library has no names: collector, allocation, compiler, stubs",
		libraries: []string{"libcoreclr.so", "libclrgc*", "libclrjit.so"}},
	{group: Serialization, reason: "turns values into bytes and back, or packs them",
		names:     []string{"Google.Protobuf!*", "System.Text.Json!*", "System.IO.Compression*"},
		libraries: []string{"Google.Protobuf.dll", "System.Text.Json.dll"}},
	{group: Crypto, reason: "TLS and ciphers", names: []string{"System.Net.Security!*", "System.Security.Cryptography*"}},
	{group: Network, reason: "sockets in .NET", names: []string{"System.Net.Sockets!*", "Microsoft.AspNetCore.Server.Kestrel.Transport.*"},
		libraries: []string{"System.Net.Sockets.dll", "Microsoft.AspNetCore.Server.Kestrel.Transport.*"}},
	{group: HTTP, reason: "parses and writes HTTP, and finds who answers a request", names: []string{"Microsoft.AspNetCore.*", "Microsoft.Extensions.Features!*"},
		libraries: []string{"Microsoft.AspNetCore.*"}},
	{group: Scheduler, reason: "chooses, parks and wakes threads, and carries on what has waited", names: []string{
		"System.Private.CoreLib!System.Threading.*", "System.Private.CoreLib!System.Runtime.CompilerServices.Async*",
		"System.Private.CoreLib!System.Runtime.CompilerServices.ValueTaskAwaiter*", "System.Private.CoreLib!System.Runtime.CompilerServices.TaskAwaiter*",
	}},
	{group: Memory, reason: "lends buffers", names: []string{"System.Private.CoreLib!System.Buffers.ArrayPool*", "System.Private.CoreLib!System.Buffers.SharedArrayPool*",
		"System.Private.CoreLib!System.GC*"}},
	{reason: "the standard library of .NET works for its caller", names: []string{"System.*"}, libraries: []string{"System.*"}},

	// Go's runtime.
	{group: SystemCalls, reason: "the user side of a system call", packages: []string{
		"syscall", "internal/runtime/syscall*", "internal/syscall/*", "golang.org/x/sys/unix",
	}, names: []string{
		"runtime.entersyscall*", "runtime.exitsyscall*", "runtime.reentersyscall", "runtime.syscall_*", "runtime.read", "runtime.write", "runtime.write1",
		"runtime.open", "runtime.closefd", "runtime.epoll*", "runtime.mmap", "runtime.sysMmap*", "runtime.madvise", "runtime.munmap", "runtime.getpid", "runtime.gettid",
		"runtime.rtsigprocmask", "runtime.tgkill", "runtime.sigreturn*",
	}},
	{group: GC, reason: "marks and sweeps, and what the program does for it: assists and write barriers", packages: []string{"internal/runtime/gc*"}, names: []string{
		"runtime.gc*", "runtime.(*gc*", "runtime.bgsweep*", "runtime.sweep*", "runtime.(*sweep*", "runtime.(*mspan).sweep*", "runtime.scan*", "runtime.(*scan*",
		"runtime.markroot*", "runtime.greyobject", "runtime.tryDeferToSpanScan", "runtime.(*span*", "runtime.spanPtrMask*", "runtime.findObject", "runtime.spanOf*",
		"runtime.wbBuf*", "runtime.(*wbBuf)*", "runtime.wbMove", "runtime.wbZero", "runtime.bulkBarrier*", "runtime.(*mspan).typePointers*", "runtime.typePointers*",
		"runtime.bgscavenge*", "runtime.(*scavenge*", "runtime.(*pageAlloc).scavenge*", "runtime.markBits*", "runtime.heapBits*", "runtime.(*mspan).heapBits*",
		"runtime.(*mspan).markBits*", "runtime.(*lfstack)*", "runtime.(*workBuf)*", "runtime.getempty", "runtime.putfull", "runtime.trygetfull", "runtime.handoff",
		"runtime.shade", "runtime.(*limiter*", "runtime.stopTheWorld*", "runtime.startTheWorld*", "runtime.runfinq", "runtime.runFinalizers", "runtime.runCleanups*",
		"runtime.pollFractionalWorkerExit", "runtime.(*activeSweep)*", "runtime.deductSweepCredit", "runtime.clearpools",
	}},
	{group: Network, reason: "waits for sockets", names: []string{"runtime.netpoll*", "runtime.(*poll*", "runtime.poll*", "internal/poll.runtime_*"}},
	{group: Scheduler, reason: "chooses, parks and wakes goroutines and threads, and keeps timers", names: []string{
		"runtime.schedule", "runtime.findRunnable", "runtime.findrunnable", "runtime.execute", "runtime.gogo", "runtime.mcall", "runtime.park_m", "runtime.gopark*",
		"runtime.goready*", "runtime.ready*", "runtime.goparkunlock", "runtime.wakep", "runtime.startm", "runtime.stopm", "runtime.mPark", "runtime.newm*",
		"runtime.note*", "runtime.futex*", "runtime.lock*", "runtime.unlock*", "runtime.(*mLockProfile)*", "runtime.(*mutex)*", "runtime.procyield*",
		"runtime.osyield*", "runtime.usleep*", "runtime.runq*", "runtime.globrunq*", "runtime.(*gQueue)*", "runtime.(*gList)*", "runtime.stealWork",
		"runtime.checkRunq*", "runtime.checkTimers*", "runtime.(*timer*", "runtime.(*randomEnum)*", "runtime.(*randomOrder)*", "runtime.sysmon*", "runtime.retake", "runtime.preempt*",
		"runtime.resetspinning", "runtime.handoffp", "runtime.acquirep*", "runtime.releasep*", "runtime.wirep", "runtime.casgstatus", "runtime.castog*",
		"runtime.casG*", "runtime.injectglist*", "runtime.sem*", "runtime.(*semaRoot)*", "runtime.dropg", "runtime.setGNoWB", "runtime.mput", "runtime.mget", "runtime.pidle*",
		"runtime.goschedImpl", "runtime.gosched*", "runtime.Gosched", "runtime.goexit0", "runtime.goexit1", "runtime.gdestroy", "runtime.newproc*", "runtime.gfget", "runtime.gfput",
		"runtime.goyield*", "runtime.acquirem", "runtime.releasem", "runtime.doaddtimer", "runtime.resettimer", "runtime.suspendG", "runtime.resumeG", "runtime.asyncPreempt*",
		"runtime.signalM", "runtime.save", "runtime.mstart1", "runtime.acquireSudog", "runtime.releaseSudog", "runtime.sched*", "runtime.(*sudog)*", "runtime.nanosleep",
		"runtime.notetsleep*", "runtime.pMask*", "runtime.(*cancelTimer)*", "runtime.traceAcquire*", "runtime.traceRelease*",
	}},
	{group: Memory, reason: "allocates memory, and grows stacks", packages: []string{"internal/runtime/pprof/label"}, names: []string{
		"runtime.malloc*", "runtime.newobject*", "runtime.newarray", "runtime.growslice*", "runtime.makeslice*", "runtime.(*mcache)*", "runtime.(*mcentral)*",
		"runtime.(*mheap)*", "runtime.(*mspan)*", "runtime.nextFree*", "runtime.persistentalloc*", "runtime.publicationBarrier", "runtime.rawstring*",
		"runtime.rawbyteslice", "runtime.makechan*", "runtime.(*fixalloc)*", "runtime.(*page*", "runtime.profilealloc", "runtime.mProf_*", "runtime.newstack",
		"runtime.copystack", "runtime.morestack*", "runtime.stackalloc", "runtime.stackfree", "runtime.stackpool*", "runtime.stackcache*", "runtime.adjust*",
		"runtime.sysAlloc*", "runtime.sysUsed*", "runtime.sysHugePage*", "runtime.sysFault*", "runtime.heapSetType*", "runtime.memclrNoHeapPointersChunked",
		"runtime.arenaIndex", "runtime.divRoundUp", "runtime.alignUp", "runtime.(*sysMemStat)*", "runtime.(*consistentHeapStats)*",
	}},
	{reason: "copies, compares and hashes for its caller, or is only on the way", names: []string{
		"runtime.memmove*", "runtime.memclr*", "runtime.memequal*", "runtime.memhash*", "runtime.strhash*", "runtime.nilinterhash", "runtime.interhash", "runtime.aeshash*",
		"runtime.typedmem*", "runtime.typedslicecopy*", "runtime.duff*", "runtime.cmpstring", "runtime.strequal", "runtime.efaceeq", "runtime.ifaceeq", "runtime.interequal",
		"runtime.map*", "runtime.conv*", "runtime.assert*", "runtime.typeAssert*", "runtime.getitab*", "runtime.intstring", "runtime.concatstring*",
		"runtime.slicebytetostring*", "runtime.stringtoslicebyte*", "runtime.stringtoslicerune*", "runtime.slicerunetostring*", "runtime.decoderune", "runtime.countrunes",
		"runtime.nanotime*", "runtime.walltime*", "runtime.vdso*", "runtime.systemstack*", "runtime.rand*", "runtime.cheaprand*", "runtime.goexit", "runtime.mstart", "runtime.mstart0",
		"runtime.main", "runtime.rt0_go", "runtime.add", "runtime.gcWriteBarrier*", "runtime.panicIndex*", "runtime.asmcgocall*", "runtime.cgocall*",
	}, packages: []string{"internal/runtime/maps", "internal/runtime/atomic", "internal/runtime/sys", "internal/runtime/math", "internal/bytealg", "internal/abi"}},
	{group: RuntimeOther, reason: "the rest of Go's run time: channels, select, defer, panics, signals, profiling", packages: []string{
		"runtime", "runtime/*", "internal/runtime/*", "internal/chacha8rand",
	}},

	// Go packages.
	{group: Serialization, reason: "turns values into bytes and back, or packs them", packages: []string{
		"encoding", "encoding/*", "compress/*", "hash/crc32", "hash/adler32", "google.golang.org/protobuf", "google.golang.org/protobuf/*", "github.com/golang/protobuf/*",
		"github.com/gogo/protobuf/*", "github.com/planetscale/vtprotobuf/*", "github.com/bytedance/sonic", "github.com/bytedance/sonic/*", "github.com/json-iterator/go",
		"github.com/goccy/go-json*", "github.com/goccy/go-yaml*", "github.com/vmihailenco/msgpack*", "github.com/fxamacker/cbor*", "github.com/google/flatbuffers/*",
		"github.com/klauspost/compress/*", "github.com/golang/snappy", "google.golang.org/grpc/encoding", "google.golang.org/grpc/encoding/*",
	}, names: []string{
		"*.MarshalVT", "*.UnmarshalVT", "*.MarshalToSizedBufferVT", "*.SizeVT", "*.MarshalJSON", "*.UnmarshalJSON", "*.MarshalBinary", "*.UnmarshalBinary",
	}},
	{group: Crypto, reason: "TLS and ciphers", packages: []string{"crypto", "crypto/*", "vendor/golang.org/x/crypto/*", "golang.org/x/crypto/*", "github.com/golang-jwt/*"}},
	{group: HTTP, reason: "parses and writes HTTP", packages: []string{
		"net/http", "net/http/*", "net/textproto", "net/url", "mime", "mime/*", "golang.org/x/net/http*", "vendor/golang.org/x/net/http*", "github.com/valyala/fasthttp*",
		"google.golang.org/grpc/internal/transport", "github.com/julienschmidt/httprouter", "github.com/go-chi/*", "github.com/gin-gonic/*",
	}},
	{group: Network, reason: "sockets in Go", packages: []string{"net", "internal/poll"}},
	{reason: "the standard library works for its caller", packages: []string{
		"archive/*", "bufio", "bytes", "cmp", "container/*", "context", "database/*", "embed", "errors", "expvar", "flag", "fmt", "go/*", "hash", "hash/*", "html",
		"html/*", "image", "image/*", "index/*", "internal/*", "io", "io/*", "iter", "log", "log/*", "maps", "math", "math/*", "net/netip", "net/mail", "net/rpc", "net/smtp",
		"os", "os/*", "path", "path/*", "plugin", "reflect", "regexp", "regexp/*", "slices", "sort", "strconv", "strings", "sync", "sync/*", "testing",
		"testing/*", "text/*", "time", "time/*", "unicode", "unicode/*", "unique", "unsafe", "weak", "vendor/*", "type", "go", "_rt0_*",
	}},
	{reason: "where C programs and threads begin", names: []string{"_start", "__libc_start*", "start_thread", "clone", "clone3", "__clone*"}},
}

// idleFunctions are the functions of the kernel's idle task.
var idleFunctions = []string{
	"do_idle", "cpu_idle_poll", "default_idle*", "arch_cpu_idle*", "cpuidle_*", "intel_idle*", "acpi_idle_*", "mwait_idle*", "poll_idle",
	"pv_native_safe_halt", "native_safe_halt", "cpu_do_idle", "cpu_startup_entry",
}
