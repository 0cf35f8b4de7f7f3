package sample

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A ring is memory that the kernel writes records to and we read from: one page of
// positions, and a power of two of pages of data (perf_event_open(2), "MMAP
// layout"). When it is full the kernel drops records and later says how many.
type ring struct {
	memory []byte
	page   *unix.PerfEventMmapPage
	data   []byte
	record []byte // one that goes over the end, in one piece
}

// errLocked is the error of a user who may not lock so much memory.
var errLocked = errors.New("more than may be locked")

func newRing(fd, pages int) (*ring, error) {
	size := os.Getpagesize()
	memory, err := unix.Mmap(fd, 0, (1+pages)*size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		if errors.Is(err, unix.EPERM) {
			err = fmt.Errorf("%w: %w", errLocked, err)
		}
		return nil, fmt.Errorf("map %d pages: %w", 1+pages, err)
	}
	return &ring{memory: memory, page: (*unix.PerfEventMmapPage)(unsafe.Pointer(&memory[0])), data: memory[size:]}, nil
}

// read calls take with every record. The bytes are take's during the call only.
func (r *ring) read(take func([]byte) error) error {
	head := atomic.LoadUint64(&r.page.Data_head)
	tail := atomic.LoadUint64(&r.page.Data_tail)
	var err error
	for tail < head && err == nil {
		var n uint64
		if n, err = r.next(tail, head, take); err == nil {
			tail += n
		}
	}
	if err != nil {
		tail = head // nothing can be found after a record without an end
	}
	atomic.StoreUint64(&r.page.Data_tail, tail)
	return err
}

// next hands over the record at tail and returns its size.
func (r *ring) next(tail, head uint64, take func([]byte) error) (uint64, error) {
	size := uint64(len(r.data))
	at := tail % size
	// A head of 8 bytes never goes over the end: records are multiples of 8.
	if head-tail < headBytes || at+headBytes > size {
		return 0, errors.New("ring: half a record")
	}
	n := uint64(recordSize(r.data[at:]))
	if n < headBytes || n > head-tail {
		return 0, fmt.Errorf("ring: a record of %d bytes where %d are", n, head-tail)
	}
	if at+n <= size {
		return n, take(r.data[at : at+n])
	}
	r.record = append(append(r.record[:0], r.data[at:]...), r.data[:at+n-size]...)
	return n, take(r.record)
}

func (r *ring) close() {
	_ = unix.Munmap(r.memory) // it was mapped
}
