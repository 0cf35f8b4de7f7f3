package sample

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"sync/atomic"
	"testing"

	"dyno/observe/profile/stack"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// u32 and u64 are numbers as the kernel writes them.
func u32(n ...uint32) (b []byte) {
	for _, v := range n {
		b = binary.NativeEndian.AppendUint32(b, v)
	}
	return b
}

func u64(n ...uint64) (b []byte) {
	for _, v := range n {
		b = binary.NativeEndian.AppendUint64(b, v)
	}
	return b
}

// made is a record with a head.
func made(kind uint32, misc uint16, parts ...[]byte) []byte {
	body := bytes.Join(parts, nil)
	b := u32(kind)
	b = binary.NativeEndian.AppendUint16(b, misc)
	b = binary.NativeEndian.AppendUint16(b, uint16(headBytes+len(body)))
	return append(b, body...)
}

func madeSample(pid uint32, time uint64, kernel, user []uint64) []byte {
	var chain []uint64
	if kernel != nil {
		chain = append(append(chain, contextKernel), kernel...)
	}
	if user != nil {
		chain = append(append(chain, contextUser), user...)
	}
	return made(unix.PERF_RECORD_SAMPLE, 0, u64(0x1000), u32(pid, pid+1), u64(time, uint64(len(chain))), u64(chain...))
}

func trailer(time uint64) []byte { return append(u32(1, 2), u64(time)...) }

// same compares records.
var same = cmp.AllowUnexported(record{})

func TestDecode(t *testing.T) {
	name := append([]byte("/lib/libc.so.6"), 0, 0)
	for _, c := range []struct {
		name string
		b    []byte
		want record
	}{
		{"sample", madeSample(7, 99, []uint64{1 << 63, 1<<63 + 8}, []uint64{16, 32}),
			record{kind: unix.PERF_RECORD_SAMPLE, time: 99, pid: 7, tid: 8, kernel: []uint64{1 << 63, 1<<63 + 8}, user: []uint64{16, 32}}},
		{"a guest's part is left out", made(unix.PERF_RECORD_SAMPLE, 0, u64(0), u32(7, 7), u64(1, 4), u64(1<<64-2048, 5, contextUser, 6)),
			record{kind: unix.PERF_RECORD_SAMPLE, time: 1, pid: 7, tid: 7, user: []uint64{6}}},
		{"no chain, user", made(unix.PERF_RECORD_SAMPLE, 0, u64(0x1000), u32(7, 7), u64(1, 0)),
			record{kind: unix.PERF_RECORD_SAMPLE, time: 1, pid: 7, tid: 7, user: []uint64{0x1000}}},
		{"no chain, kernel", made(unix.PERF_RECORD_SAMPLE, 0, u64(1<<63+5), u32(7, 7), u64(1, 0)),
			record{kind: unix.PERF_RECORD_SAMPLE, time: 1, pid: 7, tid: 7, kernel: []uint64{1<<63 + 5}}},
		{"fork", made(unix.PERF_RECORD_FORK, 0, u32(9, 7, 9, 8), u64(5), trailer(5)), record{kind: unix.PERF_RECORD_FORK, time: 5, pid: 9, parent: 7, tid: 9}},
		{"exit", made(unix.PERF_RECORD_EXIT, 0, u32(9, 7, 10, 8), u64(5), trailer(5)), record{kind: unix.PERF_RECORD_EXIT, time: 5, pid: 9, parent: 7, tid: 10}},
		{"exec", made(unix.PERF_RECORD_COMM, miscExec, u32(9, 9), []byte("nginx\x00\x00\x00"), trailer(6)), record{kind: unix.PERF_RECORD_COMM, time: 6, pid: 9, tid: 9, exec: true}},
		{"mmap2", made(unix.PERF_RECORD_MMAP2, 0, u32(9, 9), u64(0x4000, 0x1000, 0x2000), u32(8, 1), u64(77, 0), u32(5, 2), name, trailer(6)),
			record{kind: unix.PERF_RECORD_MMAP2, time: 6, pid: 9, tid: 9, mapping: stack.Mapping{Start: 0x4000, End: 0x5000, Offset: 0x2000, Path: "/lib/libc.so.6", Inode: 77}}},
		{"lost", made(unix.PERF_RECORD_LOST, 0, u64(1, 12), trailer(6)), record{kind: unix.PERF_RECORD_LOST, time: 6, lost: 12}},
		{"lost samples", made(unix.PERF_RECORD_LOST_SAMPLES, 0, u64(12), trailer(6)), record{kind: unix.PERF_RECORD_LOST_SAMPLES, time: 6, lost: 12}},
		{"throttle", made(unix.PERF_RECORD_THROTTLE, 0, u64(4, 1, 1), trailer(6)), record{kind: unix.PERF_RECORD_THROTTLE, time: 4}},
		{"one that is not of interest", made(99, 0, u64(1)), record{}},
	} {
		got, err := decode(c.b)
		if d := cmp.Diff(c.want, got, same); err != nil || d != "" {
			t.Errorf("%s: %v %s", c.name, err, d)
		}
		if c.want.kind == 0 {
			continue
		}
		if _, err := decode(c.b[:headBytes+4]); !errors.Is(err, errShort) {
			t.Errorf("%s, cut off: %v", c.name, err)
		}
	}
}

// Records come out as they went in, wherever the ring's end is.
func TestRing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const size = 512
		r := &ring{page: &unix.PerfEventMmapPage{}, data: make([]byte, size)}
		start := uint64(rapid.IntRange(0, 1000).Draw(t, "start")) * 8
		r.page.Data_head, r.page.Data_tail = start, start
		var got [][]byte
		take := func(b []byte) error {
			got = append(got, bytes.Clone(b))
			return nil
		}
		for range rapid.IntRange(1, 5).Draw(t, "rounds") {
			var want [][]byte
			head := atomic.LoadUint64(&r.page.Data_head)
			for used := 0; ; {
				b := madeSample(7, rapid.Uint64().Draw(t, "time"), nil, rapid.SliceOfN(rapid.Uint64Range(0, 1<<40), 0, 20).Draw(t, "chain"))
				if used += len(b); used > size || rapid.Bool().Draw(t, "enough") {
					break
				}
				for i := range b {
					r.data[(head+uint64(i))%size] = b[i]
				}
				head += uint64(len(b))
				want = append(want, b)
			}
			atomic.StoreUint64(&r.page.Data_head, head)
			got = nil
			if err := r.read(take); err != nil {
				t.Fatal(err)
			}
			if !slices.EqualFunc(want, got, bytes.Equal) {
				t.Fatalf("%d records in, %d out, or not the same", len(want), len(got))
			}
			if r.page.Data_tail != head {
				t.Fatalf("read up to %d of %d", r.page.Data_tail, head)
			}
		}
	})
}

// followed runs records through a follower whose root is process 1.
func followed(records ...[]byte) (*follower, error) {
	f := newFollower(1, 1000, nil)
	f.processes[7] = stack.NewProcess(7)
	for _, b := range records {
		if err := f.take(b); err != nil {
			return nil, err
		}
	}
	f.advance(1 << 62)
	return f, f.stacks.Close()
}

func TestFollow(t *testing.T) {
	user := []uint64{16, 32}
	fork := func(time uint64, pid, parent uint32) []byte {
		return made(unix.PERF_RECORD_FORK, 0, u32(pid, parent, pid, parent), u64(time), trailer(time))
	}
	for _, c := range []struct {
		name    string
		records [][]byte
		samples uint64
	}{
		{"only the target's", [][]byte{madeSample(7, 1, nil, user), madeSample(8, 2, nil, user)}, 1},
		{"a child's", [][]byte{fork(1, 8, 7), madeSample(8, 2, nil, user)}, 1},
		{"in order of time, not of arrival", [][]byte{madeSample(8, 2, nil, user), fork(1, 8, 7)}, 1},
		{"not before the fork", [][]byte{madeSample(8, 1, nil, user), fork(2, 8, 7)}, 0},
		{"a grandchild's", [][]byte{fork(1, 8, 7), fork(2, 9, 8), madeSample(9, 3, nil, user)}, 1},
		{"what the root starts", [][]byte{fork(1, 8, 1), madeSample(8, 3, nil, user), madeSample(1, 3, nil, user)}, 1},
		{"a number that others got", [][]byte{fork(1, 7, 99), madeSample(7, 2, nil, user)}, 0},
		{"threads are no processes", [][]byte{made(unix.PERF_RECORD_FORK, 0, u32(7, 7, 8, 7), u64(1), trailer(1)), madeSample(8, 2, nil, user)}, 0},
		{"threads that outlive the first", [][]byte{made(unix.PERF_RECORD_EXIT, 0, u32(7, 1, 7, 1), u64(1), trailer(1)), madeSample(7, 2, nil, user)}, 1},
	} {
		f, err := followed(c.records...)
		if err != nil || f.samples != c.samples {
			t.Errorf("%s: %v, %d samples, want %d", c.name, err, f.samples, c.samples)
		}
	}
	f, err := followed(
		madeSample(7, 1, nil, user), madeSample(7, 2, []uint64{1 << 63}, []uint64{16}), madeSample(7, 3, []uint64{1 << 63}, nil),
		made(unix.PERF_RECORD_LOST, 0, u64(1, 12), trailer(6)), made(unix.PERF_RECORD_THROTTLE, 0, u64(4, 1, 1), trailer(6)))
	if err != nil || f.leafOnly != 2 || f.lost != 12 || f.throttled != 1 {
		t.Errorf("%v: %d only a leaf, %d lost, throttled %d times; want 2, 12, 1", err, f.leafOnly, f.lost, f.throttled)
	}
	if _, err := followed([]byte("abc")); err == nil {
		t.Error("nonsense is no error")
	}
}

// Ended processes are forgotten, so that a target that forks all the time does not fill memory.
func TestFollowForgets(t *testing.T) {
	var records [][]byte
	for pid := uint32(100); pid < 100+3*maxEnded; pid++ {
		time := uint64(pid)
		records = append(records,
			made(unix.PERF_RECORD_FORK, 0, u32(pid, 7, pid, 7), u64(time), trailer(time)),
			made(unix.PERF_RECORD_EXIT, 0, u32(pid, 7, pid, 7), u64(time), trailer(time)))
	}
	f, err := followed(records...)
	if err != nil || len(f.processes) != maxEnded+1 {
		t.Errorf("%v: %d processes are remembered, want %d", err, len(f.processes), maxEnded+1)
	}
}
