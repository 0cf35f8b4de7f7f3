package channels

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// faultyFile writes to a real file and fails at random: in the middle of a
// write, or when syncing.
type faultyFile struct {
	*os.File
	rng    *rand.Rand
	faults int
}

func (f *faultyFile) Write(p []byte) (int, error) {
	if f.rng.IntN(2) == 0 {
		f.faults++
		n, _ := f.File.Write(p[:f.rng.IntN(len(p))])
		return n, unix.ENOSPC
	}
	return f.File.Write(p)
}

func (f *faultyFile) Sync() error {
	if f.rng.IntN(4) == 0 {
		f.faults++
		return unix.EIO
	}
	return f.File.Sync()
}

func (f *faultyFile) Truncate(size int64) error {
	if f.rng.IntN(4) == 0 {
		f.faults++
		return unix.EIO
	}
	return f.File.Truncate(size)
}

// put replaces a file.
func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// send writes to a pipe or connection.
func send(t *testing.T, w io.Writer, text string) {
	t.Helper()
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
}

// Failed writes and syncs leave neither gaps nor repetitions nor torn records.
func TestFileSinkFaults(t *testing.T) {
	for _, sync := range []string{SyncAlways, SyncInterval, SyncNever} {
		t.Run(sync, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "out")
			config := Channel{Name: "c", Source: tcpSource(), Sink: quick(Sink{Kind: File, Format: Framed, Path: path, Sync: sync})}
			if sync == SyncInterval {
				config.Sink.SyncEvery = time.Millisecond
			}
			srv, err := New(Config{Channels: []Channel{config}}, slog.New(slog.DiscardHandler), nil, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			f := srv.channels[0].sink.(*fileSink)
			faulty := &faultyFile{File: f.file.(*os.File), rng: rand.New(rand.NewPCG(1, 2))}
			f.file = faulty
			ctx, cancel := context.WithCancel(context.Background())
			s := &serving{Server: srv, t: t, cancel: cancel, done: make(chan error, 1)}
			go func() { s.done <- srv.Serve(ctx) }()
			for burst := range uint64(20) {
				produce(t, s.Addr("c"), 1, 50, rand.New(rand.NewPCG(burst, 1)))
				s.until("received", func(st Stats) bool { return st.Received == 50*(burst+1) })
			}
			s.until("all delivered", func(st Stats) bool { return st.Delivered == 1000 })
			if err := s.stop(); err != nil {
				t.Error(err)
			}
			if faulty.faults < 5 {
				t.Errorf("only %d faults: the test tests nothing", faulty.faults)
			}
			verify(t, path, 1000)
		})
	}
}

// lateFile fails when it is closed, like a file over its quota when the kernel writes late.
type lateFile struct{ *os.File }

func (f lateFile) Close() error { return errors.Join(f.File.Close(), unix.EDQUOT) }

func TestFileSinkFailsWhenClosed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out")
	srv, err := New(Config{Channels: []Channel{{Name: "c", Source: tcpSource(), Sink: quick(Sink{Kind: File, Path: path, Sync: SyncNever})}}},
		slog.New(slog.DiscardHandler), nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	f := srv.channels[0].sink.(*fileSink)
	f.file = lateFile{f.file.(*os.File)}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := srv.Serve(ctx); !errors.Is(err, unix.EDQUOT) || !strings.Contains(err.Error(), "channel c: close sink") {
		t.Errorf("Serve = %v", err)
	}
}

// verify checks that a framed file holds the records 1 to n, each once.
func verify(t *testing.T, path string, n uint64) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if s, err := Verify(f, 64<<10); err != nil || s.Records != n || s.First != 1 || s.Last != n || s.Missing+s.Repeated > 0 {
		t.Errorf("Verify = %+v, %v; want %d records", s, err, n)
	}
}

// A full disk: what was received stays pending, and is reported.
func TestFullDisk(t *testing.T) {
	s := start(t, Config{DrainTimeout: 50 * time.Millisecond, Channels: []Channel{{Name: "c", Source: tcpSource(),
		Sink: quick(Sink{Kind: File, Path: "/dev/full"})}}}, nil, nil)
	produce(t, s.Addr("c"), 1, 10, rand.New(rand.NewPCG(1, 1)))
	s.until("received, and tried again", func(st Stats) bool { return st.Received == 10 && st.SinkErrors >= 3 })
	if err := s.stop(); !errors.Is(err, ErrPending) || s.Stats()[0].Pending != 10 {
		t.Errorf("Serve = %v, %+v", err, s.Stats())
	}
}

func TestTornTailIsCutOff(t *testing.T) {
	frames := stream(record(1, 0, "one"), record(2, 0, "two"))
	for name, c := range map[string]struct {
		format string
		held   string
		want   string
		bad    bool
	}{
		"lines":           {format: Raw, held: "a\nb\n", want: "a\nb\n"},
		"torn line":       {format: Raw, held: "a\nb\nc", want: "a\nb\n"},
		"only a torn one": {format: Raw, held: "abc", want: ""},
		"too long for us": {format: Raw, held: strings.Repeat("x", 200), bad: true},
		"frames":          {format: Framed, held: string(frames), want: string(frames)},
		"torn frame":      {format: Framed, held: string(frames) + "\x00\x00", want: string(frames)},
		"altered":         {format: Framed, held: strings.Replace(string(frames), "one", "eno", 1), bad: true},
		"something else":  {format: Framed, held: "precious text, no frames", bad: true},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "f")
			put(t, path, c.held)
			s, _, err := openFileSink(Sink{Path: path, Format: c.format}, 100, slog.New(slog.DiscardHandler))
			if err == nil {
				if _, _, err := openFileSink(Sink{Path: path, Format: c.format}, 100, slog.New(slog.DiscardHandler)); err == nil {
					t.Error("opened twice")
				}
				s.file.Close()
			}
			if (err != nil) != c.bad {
				t.Fatal(err)
			}
			if c.bad {
				c.want = c.held
			}
			if got, _ := os.ReadFile(path); string(got) != c.want {
				t.Errorf("left %q, want %q", got, c.want)
			}
		})
	}
}

// A sink's file is its owner's only, whatever a new file may be; one that is there stays as it is.
func TestFileSinkIsPrivate(t *testing.T) {
	defer unix.Umask(unix.Umask(0))
	path := filepath.Join(t.TempDir(), "out")
	for _, want := range []os.FileMode{0o600, 0o640} {
		s, _, err := openFileSink(Sink{Kind: File, Path: path}, 100, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.file.Close(); err != nil {
			t.Error(err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%v, %v, want %v", info, err, want)
		}
		if err := os.Chmod(path, 0o640); err != nil {
			t.Fatal(err)
		}
	}
}

// A new run goes on after what the framed file holds.
func TestFramedFileContinues(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out")
	for range 3 {
		s := start(t, Config{Channels: []Channel{{Name: "c", Source: tcpSource(), Sink: quick(Sink{Kind: File, Format: Framed, Path: path})}}}, nil, nil)
		produce(t, s.Addr("c"), 1, 20, rand.New(rand.NewPCG(1, 1)))
		s.until("received", func(st Stats) bool { return st.Received == 20 })
		if err := s.stop(); err != nil {
			t.Error(err)
		}
	}
	verify(t, path, 60)
}

// follower is a log file and its writer.
type follower struct {
	t    *testing.T
	path string
	n    int
	rot  int
}

func (f *follower) write(n int) {
	f.t.Helper()
	file, err := os.OpenFile(f.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		f.t.Fatal(err)
	}
	defer file.Close()
	for range n {
		f.n++
		fmt.Fprintf(file, "0 %d ", f.n) // half a record, then the rest of it
		fmt.Fprintln(file, strings.Repeat("y", f.n%50))
	}
}

func (f *follower) rotate() {
	f.t.Helper()
	f.rot++
	if err := os.Rename(f.path, fmt.Sprintf("%s.%d", f.path, f.rot)); err != nil {
		f.t.Fatal(err)
	}
}

func (f *follower) source() Source {
	return Source{Kind: File, Path: f.path, State: f.path + "-state", RotateWait: 5 * time.Millisecond, SaveEvery: 5 * time.Millisecond, Poll: 20 * time.Millisecond}
}

// Rotated, truncated, and the relay restarted at any moment, also without the
// chance to save its last position: the sink has every record once, in order.
func TestFollowAcrossRestarts(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 8))
			dir := t.TempDir()
			f := &follower{t: t, path: filepath.Join(dir, "app.log")}
			out := filepath.Join(dir, "out")
			config := Config{DrainTimeout: 10 * time.Second, Channels: []Channel{{Name: "c", Source: f.source(), Buffer: Buffer{Records: 50},
				Sink: quick(Sink{Kind: File, Format: Framed, Path: out, Sync: SyncNever})}}}
			start := func() *serving { return start(t, config, nil, nil) }
			s := start()
			var oldState []byte
			for range 60 {
				switch rng.IntN(6) {
				case 0:
					// More than one rotation between two looks is more than is promised.
					s.until("the present file is seen", func(Stats) bool { return s.follows(f.path) })
					f.rotate0()
					oldState = nil
				case 1:
					s.until("the present file is seen", func(Stats) bool { return s.follows(f.path) })
					if err := s.stop(); err != nil {
						t.Fatal(err)
					}
					_, err := os.Stat(f.path)
					seen := err == nil // a file that came and went while nobody looked is lost
					crashed := rng.IntN(2) == 0 && oldState != nil
					if crashed {
						// As after a crash: the position is an earlier one.
						put(t, f.path+"-state", string(oldState))
					}
					f.write(rng.IntN(20))
					if seen && !crashed && rng.IntN(2) == 0 { // the saved position may be older than the present file
						f.rotate0()
						f.write(rng.IntN(20))
					}
					s = start()
					oldState = nil
				case 2:
					s.until("the present file is in the saved position", func(Stats) bool { return s.follows(f.path) && s.saved(f.path+"-state") })
					oldState, _ = os.ReadFile(f.path + "-state")
				case 3:
					want := f.n
					eventually(t, "caught up", func() bool { return held(out) >= uint64(want) })
					if info, err := os.Stat(f.path); err == nil && info.Size() > 100 {
						// The sink may have had all of it before a restart.
						s.until("the present file is read", func(Stats) bool {
							_, pos := s.channels[0].buffer.settledThrough()
							return s.follows(f.path) && pos.Offset == info.Size()
						})
						s.settle(t)
						before := s.Stats()[0].Truncations
						if err := os.Truncate(f.path, 0); err != nil {
							t.Fatal(err)
						}
						s.until("truncation noticed", func(st Stats) bool { return st.Truncations > before })
						// Counted, and then its position reset.
						s.until("position reset", func(Stats) bool { _, pos := s.channels[0].buffer.settledThrough(); return pos.Offset == 0 })
						oldState = nil // which position of a truncated file was meant cannot be known
					}
				default:
					f.write(rng.IntN(100))
				}
			}
			eventually(t, "caught up", func() bool { return held(out) >= uint64(f.n) })
			if err := s.stop(); err != nil {
				t.Error(err)
			}
			verify(t, out, uint64(f.n))
			checkNumbers(t, out)
		})
	}
}

// TestFollowAfterLosingTheFile: after a crash the sink has more than the saved position tells of. If the file of that
// position is gone, the next file's records are new. They are delivered once, even with a crash before the next
// position is saved.
func TestFollowAfterLosingTheFile(t *testing.T) {
	type place struct {
		sink Sink
		held func() int
		end  func()
	}
	for name, prepare := range map[string]func(*testing.T) place{
		"framed file": func(t *testing.T) place {
			out := filepath.Join(t.TempDir(), "out")
			return place{Sink{Kind: File, Format: Framed, Path: out, Sync: SyncNever}, func() int { return int(held(out)) }, func() {
				verify(t, out, 25)
				checkNumbers(t, out)
			}}
		},
		"framed peer": func(t *testing.T) place {
			var book ledger
			peer := newFlaky(t, 1, book.handle)
			peer.calm()
			return place{Sink{Kind: TCP, Format: Framed, Address: peer.address}, book.records, func() {
				if book.bad != nil {
					t.Error(book.bad)
				}
			}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := prepare(t)
			f := &follower{t: t, path: filepath.Join(t.TempDir(), "app.log")}
			config := Config{DrainTimeout: 10 * time.Second, Channels: []Channel{{Name: "c", Source: f.source(), Buffer: Buffer{Records: 50}, Sink: quick(p.sink)}}}
			position := f.path + "-state"
			f.write(10)
			s := start(t, config, nil, nil)
			eventually(t, "the first delivered", func() bool { return p.held() == 10 })
			state := func() string {
				text, err := os.ReadFile(position)
				if err != nil {
					t.Fatal(err)
				}
				return string(text)
			}
			// At offset 0 a file is known by its inode only, which the next one may have.
			s.until("their position saved", func(Stats) bool { return s.saved(position) && strings.Contains(state(), `"sequence":10`) })
			before := state()
			f.write(10)
			eventually(t, "more delivered", func() bool { return p.held() == 20 })
			if err := s.stop(); err != nil {
				t.Fatal(err)
			}
			put(t, position, before) // as after a crash
			if err := os.Remove(f.path); err != nil {
				t.Fatal(err)
			}
			f.write(5)
			// A position that is saved before anything is delivered survives another crash.
			crashed, err := New(config, slog.New(slog.DiscardHandler), nil, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := crashed.Close(); err != nil {
				t.Fatal(err)
			}
			begun := state()
			s = start(t, config, nil, nil)
			eventually(t, "the next file delivered", func() bool { return p.held() == 25 })
			if err := s.stop(); err != nil {
				t.Error(err)
			}
			put(t, position, begun)
			s = start(t, config, nil, nil)
			s.until("the next file read again", func(st Stats) bool { return st.Received == 5 && st.Pending == 0 })
			if err := s.stop(); err != nil {
				t.Error(err)
			}
			if p.held() != 25 {
				t.Errorf("%d records arrived, want 25", p.held())
			}
			p.end()
		})
	}
}

// TestFollowAfterLosingALaterFile: the file of the saved position is there, and reading continues
// where it was, whatever became of the later ones.
func TestFollowAfterLosingALaterFile(t *testing.T) {
	f := &follower{t: t, path: filepath.Join(t.TempDir(), "app.log")}
	config := Config{DrainTimeout: 10 * time.Second, Channels: []Channel{{Name: "c", Source: f.source(), Buffer: Buffer{Records: 50},
		Sink: quick(Sink{Kind: File, Format: Framed, Path: filepath.Join(t.TempDir(), "out"), Sync: SyncNever})}}}
	f.write(10)
	s := start(t, config, nil, nil)
	s.until("all delivered", func(st Stats) bool { return st.Delivered == 10 })
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	before, err := loadState(f.path + "-state")
	if err != nil || before.Position.Offset == 0 {
		t.Fatalf("%+v, %v", before, err)
	}
	before.Next = append(before.Next, fileID{Device: 1, Inode: 1 << 60})
	if err := before.save(f.path + "-state"); err != nil {
		t.Fatal(err)
	}
	crashed, err := New(config, slog.New(slog.DiscardHandler), nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := crashed.Close(); err != nil {
		t.Fatal(err)
	}
	if after, err := loadState(f.path + "-state"); err != nil || after.Position != before.Position || len(after.Next) != 0 {
		t.Errorf("%+v, %v, want the position of %+v", after, err, before)
	}
}

// rotate0 rotates if there is a file to rotate.
func (f *follower) rotate0() {
	if _, err := os.Stat(f.path); err == nil {
		f.rotate()
	}
}

// follows tells whether the source has seen the file that is at the path now.
func (s *serving) follows(path string) bool {
	info, err := os.Stat(path)
	if err != nil {
		return true
	}
	w := &s.channels[0].source.(*followSource).path
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.isLast(identity(info))
}

// saved tells whether the saved position knows of the latest file seen.
func (s *serving) saved(path string) bool {
	st, err := loadState(path)
	if st == nil || err != nil {
		return false
	}
	w := &s.channels[0].source.(*followSource).path
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.seen) == 0 || w.isLast(st.Position.fileID) || len(st.Next) > 0 && w.isLast(st.Next[len(st.Next)-1])
}

// settle waits until nothing is pending.
func (s *serving) settle(t *testing.T) {
	s.until("nothing pending", func(st Stats) bool { return st.Pending == 0 })
}

// held returns the last number in a framed file that may be growing.
func held(path string) uint64 {
	f, err := os.Open(path)
	if err != nil {
		return 0
	}
	defer f.Close()
	s, _ := Verify(f, 64<<10)
	return s.Last
}

// checkNumbers checks that the writer's own numbers are in order too.
func checkNumbers(t *testing.T, path string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := NewReader(f, 64<<10)
	if err != nil {
		t.Fatal(err)
	}
	for want := 1; ; want++ {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		var zero, number int
		if _, scanErr := fmt.Sscanf(string(rec.Payload), "%d %d ", &zero, &number); err != nil || scanErr != nil || number != want {
			t.Fatalf("record %d is %q, %v", want, rec.Payload, err)
		}
	}
}

// Files rotated away while the full buffer holds the source back are read later,
// each of them.
func TestFollowBlockedThroughRotations(t *testing.T) {
	f := &follower{t: t, path: filepath.Join(t.TempDir(), "app.log")}
	f.write(100)
	var book ledger
	sink := newFlaky(t, 1, book.handle)
	sink.calm()
	gate := make(chan struct{}) // closed when the sink may handle records
	book.fail = func() error { <-gate; return nil }
	s := start(t, Config{Channels: []Channel{{Name: "c", Source: f.source(), Buffer: Buffer{Records: 10}, Sink: quick(Sink{Kind: TCP, Format: Framed, Address: sink.address})}}}, nil, nil)
	s.until("full", func(st Stats) bool { return st.Received == 11 })
	follow := s.channels[0].source.(*followSource)
	for i := range 5 {
		f.rotate()
		f.write(20)
		eventually(t, "rotation seen", func() bool {
			follow.path.mu.Lock()
			defer follow.path.mu.Unlock()
			return len(follow.path.files) == i+1
		})
	}
	for i := 1; i < 5; i++ {
		if err := os.Remove(fmt.Sprintf("%s.%d", f.path, i)); err != nil { // as logrotate would
			t.Fatal(err)
		}
	}
	close(gate)
	s.until("all delivered", func(st Stats) bool { return st.Delivered == 200 })
	if err := s.stop(); err != nil || book.bad != nil || book.records() != 200 {
		t.Errorf("%v, %v, %d arrived", err, book.bad, book.records())
	}
}

func TestFollowDetails(t *testing.T) {
	f := &follower{t: t, path: filepath.Join(t.TempDir(), "app.log")}
	out := f.path + "-out"
	source := f.source()
	source.From, source.MaxRecordBytes = FromEnd, 1000
	config := Config{Channels: []Channel{{Name: "c", Source: source, Sink: quick(Sink{Kind: File, Path: out, Sync: SyncNever})}}}
	has := func(want string) {
		t.Helper()
		eventually(t, "the sink has "+want, func() bool { got, _ := os.ReadFile(out); return string(got) == want })
	}
	add := func(text string) {
		file, err := os.OpenFile(f.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		_, err = file.WriteString(text)
		if err := errors.Join(err, file.Close()); err != nil {
			t.Fatal(err)
		}
	}
	add("before\n")
	s := start(t, config, nil, nil)
	eventually(t, "it has begun", func() bool { text, _ := os.ReadFile(source.State); return len(text) > 0 })
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	add("while down\n") // is after the saved position, so it counts
	s = start(t, config, nil, nil)
	has("while down\n")
	add(strings.Repeat("x", 1001) + "\nnext\nunfinished")
	has("while down\nnext\n")
	f.rotate()
	add("new\n") // the last line of the old file counts without its newline
	has("while down\nnext\nunfinished\nnew\n")
	st := s.Stats()[0]
	if st.Rejected != 1 || st.Rotations != 1 || st.Torn != 0 {
		t.Errorf("%+v", st)
	}
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}

	// Another file with the same inode is not taken for the old one.
	put(t, f.path, "other content, longer than before\n")
	s = start(t, config, nil, nil)
	has("while down\nnext\nunfinished\nnew\nother content, longer than before\n")
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	put(t, source.State, "{}")
	if _, err := New(config, slog.New(slog.DiscardHandler), nil, nil, nil); err == nil || !strings.Contains(err.Error(), "remove it to start again") {
		t.Errorf("broken state: %v", err)
	}
}

func TestStandardInputToOutput(t *testing.T) {
	for _, format := range []string{Raw, Framed} {
		in, feed, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		s := start(t, Config{Channels: []Channel{{Name: "c", Source: Source{Kind: Stdin}, Sink: Sink{Kind: Stdout, Format: format}}}}, in, &out)
		send(t, feed, "one\ntwo\nthree")
		feed.Close()
		if err := s.wait(); err != nil { // it ends by itself
			t.Error(err)
		}
		in.Close()
		if format == Raw && out.String() != "one\ntwo\nthree\n" {
			t.Errorf("out: %q", out.String())
		}
		if format == Framed {
			if sum, err := Verify(&out, 100); err != nil || sum.Records != 3 || sum.Last != 3 {
				t.Errorf("Verify = %+v, %v", sum, err)
			}
		}
	}
}

// Standard input that says nothing does not keep the server from ending, nor does
// standard output that nobody reads.
func TestStandardStreamsDoNotHang(t *testing.T) {
	in, feed, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	defer feed.Close()
	unread, out := io.Pipe()
	defer unread.Close()
	s := start(t, Config{DrainTimeout: 50 * time.Millisecond, Channels: []Channel{{Name: "c", Source: Source{Kind: Stdin}, Sink: Sink{Kind: Stdout}}}}, in, out)
	send(t, feed, "one\n")
	s.until("received", func(st Stats) bool { return st.Received == 1 })
	if err := s.stop(); !errors.Is(err, ErrPending) {
		t.Errorf("Serve = %v", err)
	}
}

// Standard input that cannot be read is not one at its end.
func TestStandardInputFails(t *testing.T) {
	in, feed, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	feed.Close()
	in.Close()
	s := start(t, Config{Channels: []Channel{{Name: "c", Source: Source{Kind: Stdin}, Sink: Sink{Kind: Stdout}}}}, in, io.Discard)
	if err := s.wait(); err == nil || !strings.Contains(err.Error(), "channel c: wait for standard input") {
		t.Errorf("Serve = %v", err)
	}
}

// When standard output fails, so does the channel, and with it the server.
func TestStandardOutputFails(t *testing.T) {
	unread, out := io.Pipe()
	unread.Close()
	s := start(t, Config{Channels: []Channel{
		{Name: "c", Source: tcpSource(), Sink: Sink{Kind: Stdout}},
		{Name: "d", Source: tcpSource(), Sink: Sink{Kind: File, Path: filepath.Join(t.TempDir(), "f")}},
	}}, nil, out)
	produce(t, s.Addr("c"), 1, 1, rand.New(rand.NewPCG(1, 1)))
	if err := s.wait(); !errors.Is(err, io.ErrClosedPipe) || !strings.Contains(err.Error(), "channel c: write to standard output") {
		t.Errorf("Serve = %v", err)
	}
}

// What producers may do wrong.
func TestProducers(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	source := tcpSource()
	source.MaxRecordBytes, source.MaxConnections, source.Framing = 10, 2, Length
	s := start(t, Config{Channels: []Channel{{Name: "c", Source: source, Sink: quick(Sink{Kind: File, Format: Framed, Path: out, Sync: SyncNever})}}}, nil, nil)
	dial := func() *net.TCPConn {
		c, err := net.Dial("tcp", s.Addr("c").String())
		if err != nil {
			t.Fatal(err)
		}
		c.SetDeadline(time.Now().Add(hang))
		return c.(*net.TCPConn)
	}
	gone := func(c net.Conn) {
		t.Helper()
		if n, err := c.Read(make([]byte, 1)); n > 0 || err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("not closed: %d, %v", n, err)
		}
		c.Close()
	}
	half := dial()
	send(t, half, "\x00\x00\x00\x01a\x00\x00\x00\x05bc") // a whole record, and half of one
	half.Close()
	reset := dial()
	send(t, reset, "\x00\x00\x00\x01b\x00\x00\x00\x05bc")
	s.until("both received", func(st Stats) bool { return st.Received == 2 && st.Torn == 1 })
	if err := reset.SetLinger(0); err != nil {
		t.Fatal(err)
	}
	reset.Close()
	s.until("both torn", func(st Stats) bool { return st.Torn == 2 && st.Connections == 0 })
	long := dial()
	send(t, long, "\x00\x00\x00\x0a1234567890\x00\x00\x00\x0b1")
	gone(long)
	s.until("one rejected", func(st Stats) bool { return st.Rejected == 1 && st.Connections == 0 })
	first, second := dial(), dial()
	s.until("two connected", func(st Stats) bool { return st.Connections == 2 })
	gone(dial())
	send(t, first, "\x00\x00\x00\x01c")
	send(t, second, "\x00\x00\x00\x01d")
	// Written before the end, so delivered, although nobody closes.
	if err := s.stop(); err != nil {
		t.Error(err)
	}
	first.Close()
	second.Close()
	verify(t, out, 5)
	if st := s.Stats()[0]; st.Refused != 1 || st.Torn != 2 || st.Rejected != 1 {
		t.Errorf("%+v", st)
	}
}

// What is written and not synced may not fill the buffer: producers would wait for the
// interval to end.
func TestSyncsBeforeTheBufferIsFull(t *testing.T) {
	const n = 2000 // of 100 bytes
	for name, b := range map[string]Buffer{"records": {Records: 4}, "bytes": {Bytes: 64 << 10}} {
		t.Run(name, func(t *testing.T) {
			sink := Sink{Kind: File, Format: Framed, Path: filepath.Join(t.TempDir(), "out"), Sync: SyncInterval, SyncEvery: time.Hour}
			s := start(t, Config{Channels: []Channel{{Name: "c", Source: tcpSource(), Buffer: b, Sink: sink}}}, nil, nil)
			produce(t, s.Addr("c"), 1, n, rand.New(rand.NewPCG(1, 1)))
			s.until("all received", func(st Stats) bool { return st.Received == n && st.Pending < n/2 })
			if err := s.stop(); err != nil {
				t.Error(err)
			}
			verify(t, sink.Path, n)
		})
	}
}

func TestIdleProducerIsClosed(t *testing.T) {
	source := tcpSource()
	source.IdleTimeout = 20 * time.Millisecond
	s := start(t, Config{Channels: []Channel{{Name: "c", Source: source, Sink: Sink{Kind: Stdout}}}}, nil, io.Discard)
	c, err := net.Dial("tcp", s.Addr("c").String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(hang))
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("idle: %v", err)
	}
	if err := s.stop(); err != nil {
		t.Error(err)
	}
}

// The position and the file's stream must belong together.
func TestStateOfAnotherStream(t *testing.T) {
	dir := t.TempDir()
	f := &follower{t: t, path: filepath.Join(dir, "log")}
	st := state{Version: 1, Stream: StreamID{9}}
	if err := st.save(f.path + "-state"); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "out")
	put(t, out, string(stream(record(1, 0, "x"))))
	_, err := New(Config{Channels: []Channel{{Name: "c", Source: f.source(), Sink: quick(Sink{Kind: File, Format: Framed, Path: out})}}}, slog.New(slog.DiscardHandler), nil, nil, nil)
	if err == nil || !strings.Contains(err.Error(), "move one of them away") {
		t.Errorf("New = %v", err)
	}
}
