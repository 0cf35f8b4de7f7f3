package engine_test

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"dyno/internal/leak"
	"dyno/load/engine"
	"dyno/load/engine/record"
	"dyno/load/engine/subscribe"
	"dyno/load/wire/sse"
	"dyno/selftest/oracle"
)

// silentServer names the variable that makes of this program a server for
// BenchmarkIdleSubscribers, in a process of its own so that its memory is not counted.
const silentServer = "DYNO_TEST_SILENT_SERVER"

func TestMain(m *testing.M) {
	if os.Getenv(silentServer) != "" {
		if err := serveSilence(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	flag.Parse()
	if flag.Lookup("test.bench").Value.String() == "" {
		// A worker keeps a processor while it waits, and most tests do nothing else.
		runtime.GOMAXPROCS(4 * parallelTests)
		if err := flag.Set("test.parallel", strconv.Itoa(parallelTests)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	leak.Main(m)
}

// parallelTests is how many of the tests that call Parallel run at once. They have no more
// than two workers each.
const parallelTests = 4

// serveSilence takes subscribers, sends one event to each and then nothing, until its
// standard input ends.
func serveSilence() error {
	s, err := oracle.StartStream(context.Background(), oracle.Config{Connections: 20_000}, oracle.StreamConfig{Events: 1, Rate: 10})
	if err != nil {
		return err
	}
	fmt.Println(s.Addr())
	_, _ = bufio.NewReader(os.Stdin).ReadByte() // the parent has ended, or wants this to
	return s.Close()
}

// BenchmarkIdleSubscribers reports the memory that a subscriber takes who has had an
// event and waits for the next: resident memory of this whole process over their
// number.
func BenchmarkIdleSubscribers(b *testing.B) {
	const count = 15_000
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil || limit.Cur < count+100 {
		b.Skipf("%d descriptors for %d subscribers: %v", limit.Cur, count, err)
	}
	server := exec.CommandContext(b.Context(), os.Args[0])
	server.Env = append(os.Environ(), silentServer+"=1")
	server.Stderr = os.Stderr
	stdin, err := server.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	stdout, err := server.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := server.Start(); err != nil {
		b.Fatal(err)
	}
	defer func() {
		_ = stdin.Close()
		if err := server.Wait(); err != nil {
			b.Error(err)
		}
	}()
	address, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		debug.FreeOSMemory()
		before := resident(b)
		var during int
		r := run(b, engine.Config{
			Address: strings.TrimSpace(address), Warmup: time.Second, Window: time.Second,
			Subscribers: &subscribe.Config{Count: count, NewStreams: streams(b, sse.StreamConfig{})},
			OnPhase: func(p engine.Phase) {
				if p == engine.Draining {
					during = resident(b)
				}
			},
		})
		if got := r.Streams; got.Opened != count || got.AllDelivered != count {
			b.Fatalf("%+v", got)
		}
		b.ReportMetric(float64(during)/count, "B/subscriber")
		b.ReportMetric(float64(during-before)/count, "added-B/subscriber")
		b.ReportMetric(float64(r.Latency[record.Opening].Quantile(0.99))/1e6, "opening-p99-ms")
	}
}

// resident returns this process's resident memory in bytes.
func resident(tb testing.TB) int {
	tb.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		tb.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	kilobytes, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		tb.Fatal(err)
	}
	return kilobytes << 10
}
