package channels

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dyno/internal/freeport"
)

// A sink goes on with what is at its path, whatever others do to the file there: no record is lost, none comes twice.
func TestSinkFollowsItsPath(t *testing.T) {
	for name, disturb := range map[string]func(t *testing.T, path string) (kept []byte){
		"renamed": func(t *testing.T, path string) []byte {
			must(t, os.Rename(path, path+".1"))
			return read(t, path+".1")
		},
		"renamed and made": func(t *testing.T, path string) []byte {
			must(t, os.Rename(path, path+".1"))
			put(t, path, "")
			return read(t, path+".1")
		},
		"renamed and compressed": func(t *testing.T, path string) []byte {
			kept := read(t, path)
			must(t, os.Rename(path, path+".1"))
			must(t, os.Remove(path+".1"))
			return kept
		},
		"removed": func(t *testing.T, path string) []byte {
			kept := read(t, path)
			must(t, os.Remove(path))
			return kept
		},
		"copied and truncated": func(t *testing.T, path string) []byte {
			kept := read(t, path)
			must(t, os.Truncate(path, 0))
			return kept
		},
		"folder removed and made": func(t *testing.T, path string) []byte {
			kept := read(t, path)
			must(t, os.RemoveAll(filepath.Dir(path)))
			must(t, os.Mkdir(filepath.Dir(path), 0o700))
			return kept
		},
	} {
		for _, format := range []string{Raw, Framed} {
			for _, sync := range []string{SyncAlways, SyncInterval, SyncNever} {
				t.Run(name+"/"+format+"/"+sync, func(t *testing.T) {
					t.Parallel()
					path := filepath.Join(t.TempDir(), "sub", "out")
					must(t, os.Mkdir(filepath.Dir(path), 0o700))
					sink := quick(Sink{Kind: File, Format: format, Path: path, Sync: sync})
					if sync == SyncInterval {
						sink.SyncEvery = time.Millisecond
					}
					s := start(t, Config{Channels: []Channel{{Name: "c", Source: tcpSource(), Sink: sink}}}, nil, nil)
					var kept [][]byte
					for round := range uint64(3) {
						produce(t, s.Addr("c"), int(round), 50, rand.New(rand.NewPCG(round, 1)))
						s.until("all delivered", func(st Stats) bool { return st.Delivered == 50*(round+1) })
						if round < 2 {
							kept = append(kept, disturb(t, path))
						}
					}
					if st := s.Stats()[0]; st.Reopened != 2 {
						t.Errorf("%+v", st)
					}
					must(t, s.stop())
					var got, want []string
					for round, file := range append(kept, read(t, path)) {
						got = append(got, payloads(t, format, file)...)
						for i := range 50 {
							want = append(want, fmt.Sprintf("%d %d", round, i+1))
						}
					}
					if strings.Join(got, ", ") != strings.Join(want, ", ") {
						t.Errorf("%d records in all files, want %d: %q", len(got), len(want), got)
					}
				})
			}
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	must(t, err)
	return text
}

// payloads returns the producers' and records' numbers of what produce has sent, as a sink's file holds them.
func payloads(t *testing.T, format string, file []byte) (all []string) {
	t.Helper()
	add := func(record string) {
		words := strings.Fields(record)
		all = append(all, strings.Join(words[:min(2, len(words))], " "))
	}
	if format == Raw {
		for line := range strings.Lines(string(file)) {
			add(line)
		}
		return all
	}
	r, err := NewReader(bytes.NewReader(file), 64<<10)
	must(t, err)
	for {
		rec, err := r.Next()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				t.Error(err)
			}
			return all
		}
		add(string(rec.Payload))
	}
}

// An idle sink opens its path again, too, so that the old file's space is freed: by itself, and at once when it is asked to.
func TestIdleSinkFollowsItsPath(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out")
	s := start(t, Config{Channels: []Channel{{Name: "c", Source: tcpSource(), Sink: quick(Sink{Kind: File, Path: path})}}}, nil, nil)
	for n := range uint64(2) {
		must(t, os.Rename(path, path+".1"))
		if n == 1 {
			s.Reopen()
		}
		s.until("opened again", func(st Stats) bool { return st.Reopened == n+1 })
		read(t, path)
	}
	must(t, s.stop())
}

// What gets a sink's path and is none of its own is left alone, and nothing is lost meanwhile.
func TestSinkMeetsAnotherFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out")
	s := start(t, Config{Channels: []Channel{{Name: "c", Source: tcpSource(), Sink: quick(Sink{Kind: File, Format: Framed, Path: path})}}}, nil, nil)
	produce(t, s.Addr("c"), 1, 5, rand.New(rand.NewPCG(1, 1)))
	s.until("delivered", func(st Stats) bool { return st.Delivered == 5 })
	must(t, os.Remove(path))
	other := string(stream(record(1, 0, "x")))
	put(t, path, other)
	produce(t, s.Addr("c"), 2, 5, rand.New(rand.NewPCG(1, 1)))
	s.until("tried again", func(st Stats) bool { return st.Received == 10 && st.SinkErrors >= 3 })
	if got := read(t, path); string(got) != other {
		t.Errorf("the other file is now %q", got)
	}
	must(t, os.Remove(path))
	s.until("all delivered", func(st Stats) bool { return st.Delivered == 10 })
	must(t, s.stop())
	if got := payloads(t, Framed, read(t, path)); len(got) != 5 {
		t.Errorf("%q", got)
	}
}

// A crash after the sink's file was rotated repeats nothing of it.
func TestCrashAfterTheSinkWasRotated(t *testing.T) {
	f := &follower{t: t, path: filepath.Join(t.TempDir(), "app.log")}
	f.write(50)
	out, source := f.path+"-out", f.source()
	source.SaveEvery = time.Hour
	config := Config{Channels: []Channel{{Name: "c", Source: source, Sink: quick(Sink{Kind: File, Format: Framed, Path: out, Sync: SyncNever})}}}
	s := start(t, config, nil, nil)
	s.until("delivered", func(st Stats) bool { return st.Delivered == 50 })
	must(t, os.Rename(out, out+".1"))
	s.until("opened again", func(st Stats) bool { return st.Reopened == 1 })
	state := read(t, source.State)
	must(t, s.stop())
	put(t, source.State, string(state)) // a crash would have left this
	f.write(50)
	s = start(t, config, nil, nil)
	s.until("delivered", func(st Stats) bool { return st.Delivered == 50 })
	must(t, s.stop())
	if got := payloads(t, Framed, append(read(t, out+".1"), read(t, out)[headerSize:]...)); len(got) != 100 || got[99] != "0 100" {
		t.Errorf("%d records: %q", len(got), got)
	}
}

// The stream is known before its first record leaves: whatever a crash leaves of the state, the peer gets each record once.
func TestStreamIsSavedFirst(t *testing.T) {
	f := &follower{t: t, path: filepath.Join(t.TempDir(), "app.log")}
	f.write(100)
	var book ledger
	peer := newFlaky(t, 1, book.handle)
	peer.calm()
	source := f.source()
	source.SaveEvery = time.Hour
	config := Config{Channels: []Channel{{Name: "c", Source: source, Sink: quick(Sink{Kind: TCP, Format: Framed, Address: peer.address})}}}
	var first []byte
	for range 3 {
		s := start(t, config, nil, nil)
		if first == nil {
			first = read(t, source.State)
		}
		s.until("delivered", func(st Stats) bool { return st.Delivered == uint64(f.n) })
		must(t, s.stop())
		put(t, source.State, string(first)) // a crash would have left this
		f.write(10)
	}
	if book.bad != nil || book.records() != 120 {
		t.Errorf("%v; %d records, want 120", book.bad, book.records())
	}
}

// What is acknowledged is settled by the sink of the receiver, and by that alone.
func TestAcknowledgedIsSettled(t *testing.T) {
	gate := make(chan struct{})
	var book ledger
	book.fail = func() error { <-gate; return nil }
	end := newFlaky(t, 1, book.handle)
	end.calm()
	s := start(t, Config{Channels: []Channel{{Name: "c", Source: framedSource("127.0.0.1:0"), Sink: quick(Sink{Kind: TCP, Format: Framed, Address: end.address})}}}, nil, nil)
	p, last := connect(t, s, StreamID{1})
	send(t, p, frame(1, "1 1 a")+frame(2, "1 2 b"))
	s.until("received", func(st Stats) bool { return st.Received == 2 })
	again, first := connect(t, s, StreamID{1})
	send(t, again, frame(1, "1 1 a")+frame(2, "1 2 b"))
	s.until("repeated", func(st Stats) bool { return st.Repeated == 2 })
	if last != 0 || first != 0 {
		t.Errorf("%d and %d are acknowledged, and nothing is settled", last, first)
	}
	close(gate)
	for _, p := range []peer{p, again} {
		for last = 0; last != 2; last = p.acknowledged() {
			if last != 0 && last != 1 {
				t.Fatalf("%d is acknowledged", last)
			}
		}
	}
	must(t, s.stop())
}

// A receiver ends whose sink could settle nothing. Nothing is lost: its peer keeps all and sends it to the next one.
func TestReceiverEndsBeforeItsSinkHasAnything(t *testing.T) {
	const n = 1000
	f := &follower{t: t, path: filepath.Join(t.TempDir(), "app.log")}
	f.write(n)
	address, out := freeport.Address(t), f.path+"-out"
	away := start(t, Config{DrainTimeout: time.Millisecond, Channels: []Channel{{Name: "b", Source: framedSource(address),
		Sink: quick(Sink{Kind: TCP, Format: Framed, Address: freeport.Address(t)})}}}, nil, nil)
	first := start(t, Config{Channels: []Channel{{Name: "a", Source: f.source(), Sink: quick(Sink{Kind: TCP, Format: Framed, Address: address})}}}, nil, nil)
	away.until("received", func(st Stats) bool { return st.Received > 0 })
	if err := away.stop(); err != nil {
		t.Errorf("the end of the first receiver: %v", err)
	}
	if st := first.Stats()[0]; st.Delivered != 0 {
		t.Errorf("nothing is settled, and the sender has %+v", st)
	}
	second := start(t, Config{Channels: []Channel{{Name: "b", Source: framedSource(address), Sink: quick(Sink{Kind: File, Format: Framed, Path: out})}}}, nil, nil)
	first.until("all delivered", func(st Stats) bool { return st.Delivered == n })
	must(t, first.stop())
	must(t, second.stop())
	verify(t, out, n)
}

// follows runs a channel from a file to a file. It returns the channel, and a function that waits for the sink's
// contents.
func (f *follower) follows() (s *serving, has func(want string)) {
	f.t.Helper()
	out := f.path + "-out"
	s = start(f.t, Config{Channels: []Channel{{Name: "c", Source: f.source(), Sink: quick(Sink{Kind: File, Path: out, Sync: SyncNever})}}}, nil, nil)
	return s, func(want string) {
		f.t.Helper()
		eventually(f.t, fmt.Sprintf("the sink has %q", want), func() bool { got, _ := os.ReadFile(out); return string(got) == want })
	}
}

// A followed file that is removed is let go when it has been read. The next one at the path is read from its
// beginning, whatever inode it has, also after a restart.
func TestFollowLetsGoOfARemovedFile(t *testing.T) {
	f := &follower{t: t, path: filepath.Join(t.TempDir(), "app.log")}
	put(t, f.path, "one\ntwo")
	s, has := f.follows()
	has("one\n")
	must(t, os.Remove(f.path))
	has("one\ntwo\n") // the last line counts without its newline
	s.until("let go", func(st Stats) bool { return st.Rotations == 1 })
	put(t, f.path, "three\n")
	has("one\ntwo\nthree\n")
	must(t, os.Remove(f.path))
	s.until("let go", func(st Stats) bool { return st.Rotations == 2 })
	must(t, s.stop())
	if st, err := loadState(f.source().State); err != nil || st.Position != (position{}) || len(st.Next) != 0 {
		t.Errorf("saved %+v, %v", st, err)
	}
	put(t, f.path, "four\n")
	s, has = f.follows()
	has("one\ntwo\nthree\nfour\n")
	must(t, s.stop())
}

// A followed file that is truncated and written again is read again, be it shorter or longer than before.
func TestFollowAFileThatIsReplacedInPlace(t *testing.T) {
	f := &follower{t: t, path: filepath.Join(t.TempDir(), "app.log")}
	put(t, f.path, "one\n")
	s, has := f.follows()
	has("one\n")
	put(t, f.path, "a longer line\n")
	has("one\na longer line\n")
	put(t, f.path, "x\n")
	has("one\na longer line\nx\n")
	s.until("both are counted", func(st Stats) bool { return st.Truncations == 2 })
	must(t, s.stop())
}

// A path that leads to another file in another folder is followed, also across a restart.
func TestFollowASymbolicLink(t *testing.T) {
	dir := t.TempDir()
	f := &follower{t: t, path: filepath.Join(dir, "current")}
	for _, day := range []string{"monday", "tuesday"} {
		must(t, os.Mkdir(filepath.Join(dir, day), 0o700))
		put(t, filepath.Join(dir, day, "log"), day+"\n")
	}
	must(t, os.Symlink(filepath.Join(dir, "monday", "log"), f.path))
	s, has := f.follows()
	has("monday\n")
	must(t, s.stop())
	s, has = f.follows()
	must(t, os.Symlink(filepath.Join(dir, "tuesday", "log"), f.path+".new"))
	must(t, os.Rename(f.path+".new", f.path))
	has("monday\ntuesday\n")
	must(t, s.stop())
}

// A path that cannot be followed for a while is tried again, and counted.
func TestFollowFailsForAWhile(t *testing.T) {
	f := &follower{t: t, path: filepath.Join(t.TempDir(), "app.log")}
	put(t, f.path, "one\n")
	s, has := f.follows()
	has("one\n")
	f.rotate()
	must(t, os.Mkdir(f.path, 0o700))
	s.until("tried again", func(st Stats) bool { return st.SourceErrors >= 2 })
	must(t, os.Remove(f.path))
	put(t, f.path, "two\n")
	has("one\ntwo\n")
	must(t, s.stop())
}
