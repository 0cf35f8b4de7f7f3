package sample

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"dyno/observe/profile/stack"

	"golang.org/x/sys/unix"
)

// Records of the kernel, as perf_event_open(2) lays them out, for the samples that
// attributes asks for.
const (
	headBytes    = 8  // type, flags, size
	trailerBytes = 16 // process, thread, time: after all but samples
	miscExec     = 1 << 13

	contextKernel = 1<<64 - 128 // PERF_CONTEXT_KERNEL
	contextUser   = 1<<64 - 512 // PERF_CONTEXT_USER
	contextMax    = 1<<64 - 4095
)

// A record is a perf record of a used type.
type record struct {
	kind         uint32
	time         uint64 // nanoseconds of CLOCK_MONOTONIC
	pid, parent  int    // of processes
	tid          int
	exec         bool // of a comm record: a new program
	mapping      stack.Mapping
	kernel, user []uint64 // leaf first
	lost         uint64
	scan         *scanned // not the kernel's: what we have read ourselves
}

func recordSize(b []byte) uint16 { return binary.NativeEndian.Uint16(b[6:]) }

var errShort = errors.New("too short")

// decode reads a record. A kind that is not used has kind 0.
func decode(b []byte) (r record, err error) {
	if len(b) < headBytes {
		return r, fmt.Errorf("record: %w", errShort)
	}
	kind, misc := binary.NativeEndian.Uint32(b), binary.NativeEndian.Uint16(b[4:])
	d := decoder{b: b[headBytes:]}
	switch kind {
	case unix.PERF_RECORD_SAMPLE:
		d.sample(&r)
	case unix.PERF_RECORD_FORK, unix.PERF_RECORD_EXIT:
		r.pid, r.parent = int(d.u32()), int(d.u32())
		r.tid = int(d.u32())
		d.skip(4)
		r.time = d.u64()
	case unix.PERF_RECORD_COMM:
		r.pid, r.tid = int(d.u32()), int(d.u32())
		r.exec = misc&miscExec != 0
		d.trailer(&r)
	case unix.PERF_RECORD_MMAP2:
		d.mmap2(&r)
		d.trailer(&r)
	case unix.PERF_RECORD_LOST:
		d.skip(8)
		r.lost = d.u64()
		d.trailer(&r)
	case unix.PERF_RECORD_LOST_SAMPLES:
		r.lost = d.u64()
		d.trailer(&r)
	case unix.PERF_RECORD_THROTTLE:
		r.time = d.u64()
	default:
		return r, nil
	}
	if d.short {
		return record{}, fmt.Errorf("record of kind %d with %d bytes: %w", kind, len(b), errShort)
	}
	r.kind = kind
	return r, nil
}

// A decoder takes numbers from the front. After the end all are zero.
type decoder struct {
	b     []byte
	short bool
}

func (d *decoder) skip(n int) []byte {
	if n > len(d.b) {
		d.b, d.short = nil, true
		return nil
	}
	taken := d.b[:n]
	d.b = d.b[n:]
	return taken
}

func (d *decoder) u32() uint32 {
	if b := d.skip(4); b != nil {
		return binary.NativeEndian.Uint32(b)
	}
	return 0
}

func (d *decoder) u64() uint64 {
	if b := d.skip(8); b != nil {
		return binary.NativeEndian.Uint64(b)
	}
	return 0
}

// trailer reads the time from the record's end.
func (d *decoder) trailer(r *record) {
	if len(d.b) < trailerBytes {
		d.short = true
		return
	}
	r.time = binary.NativeEndian.Uint64(d.b[len(d.b)-8:])
}

func (d *decoder) sample(r *record) {
	ip := d.u64()
	r.pid, r.tid = int(d.u32()), int(d.u32())
	r.time = d.u64()
	n := d.u64()
	if n > uint64(len(d.b)/8) {
		d.short = true
		return
	}
	chain := &r.user
	for range n {
		switch a := d.u64(); {
		case a == contextKernel:
			chain = &r.kernel
		case a == contextUser:
			chain = &r.user
		case a >= contextMax: // a hypervisor's or a guest's, which has no code here
			chain = new([]uint64)
		default:
			*chain = append(*chain, a)
		}
	}
	if len(r.kernel)+len(r.user) == 0 && ip != 0 {
		if ip>>63 != 0 {
			r.kernel = []uint64{ip}
		} else {
			r.user = []uint64{ip}
		}
	}
}

func (d *decoder) mmap2(r *record) {
	r.pid, r.tid = int(d.u32()), int(d.u32())
	m := &r.mapping
	m.Start = d.u64()
	m.End = m.Start + d.u64()
	m.Offset = d.u64()
	d.skip(8) // device
	m.Inode = d.u64()
	d.skip(8 + 4 + 4) // generation, protection, flags
	if len(d.b) >= trailerBytes {
		name := d.b[:len(d.b)-trailerBytes]
		if i := bytes.IndexByte(name, 0); i >= 0 {
			name = name[:i]
		}
		m.Path = string(name)
	}
}
