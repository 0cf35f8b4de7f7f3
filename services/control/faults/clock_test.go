package faults

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A clock is the wall clock of one process, which can be set without setting the
// machine's. Go programs ask the vDSO for the time (vdso(7)), which is memory of their own:
// before such a process has run its first instruction, the vDSO's clock_gettime is
// replaced by one that asks the kernel and adds an offset to CLOCK_REALTIME. Jumps are
// changes of the offset. CLOCK_MONOTONIC goes on, as it does when a clock is set.
type clock struct {
	memory *os.File // of the process
	at     int64    // where the offset is
}

// clocks says why clocks cannot be set here; "" is that they can.
func clocks() string {
	if runtime.GOARCH != "amd64" {
		return "the replacement of clock_gettime is for amd64"
	}
	return ""
}

// gettime is the replacement, in machine code of amd64:
//
//	mov  $228, %eax        # clock_gettime
//	syscall                # keeps all registers but rax, rcx, r11
//	test %edi, %edi        # CLOCK_REALTIME is 0
//	jne  1f
//	mov  offset(%rip), %rcx
//	add  %rcx, (%rsi)      # tv_sec
//	1: ret
//
// and the offset, in seconds, after two bytes that align it.
var gettime = []byte{
	0xb8, 0xe4, 0x00, 0x00, 0x00,
	0x0f, 0x05,
	0x85, 0xff,
	0x75, 0x0a,
	0x48, 0x8b, 0x0d, 0x06, 0x00, 0x00, 0x00,
	0x48, 0x01, 0x0e,
	0xc3,
	0x90, 0x90,
	0, 0, 0, 0, 0, 0, 0, 0,
}

const offsetAt = 24 // in gettime

// newClock replaces the clock of a process that was started with SysProcAttr.Ptrace, and
// lets it run. Only the thread that has started it may do so.
func newClock(pid int) (*clock, error) {
	var status unix.WaitStatus
	if _, err := unix.Wait4(pid, &status, 0, nil); err != nil {
		return nil, err
	}
	if !status.Stopped() {
		return nil, fmt.Errorf("status %#x: it should have stopped at its first instruction", int(status))
	}
	c, err := replaceClock(pid)
	return c, errors.Join(err, unix.PtraceDetach(pid))
}

func replaceClock(pid int) (*clock, error) {
	base, err := vdsoOf(pid)
	if err != nil {
		return nil, err
	}
	memory, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	image := make([]byte, 2*os.Getpagesize())
	if _, err := memory.ReadAt(image, base); err != nil {
		return nil, errors.Join(err, memory.Close())
	}
	library, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return nil, errors.Join(err, memory.Close())
	}
	symbols, err := library.DynamicSymbols()
	if err != nil {
		return nil, errors.Join(err, memory.Close())
	}
	for _, s := range symbols {
		if s.Name != "__vdso_clock_gettime" {
			continue
		}
		if s.Size < uint64(len(gettime)) || s.Value%8 != 0 {
			return nil, errors.Join(fmt.Errorf("the vDSO's clock_gettime has %d bytes at %#x: the replacement does not fit", s.Size, s.Value), memory.Close())
		}
		at := base + int64(s.Value) //nolint:gosec // in a library of two pages
		if _, err := unix.PtracePokeText(pid, uintptr(at), gettime); err != nil {
			return nil, errors.Join(err, memory.Close())
		}
		return &clock{memory, at + offsetAt}, nil
	}
	return nil, errors.Join(errors.New("the vDSO has no clock_gettime"), memory.Close())
}

// vdsoOf is where the vDSO of a process begins (getauxval(3)).
func vdsoOf(pid int) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/auxv", pid))
	if err != nil {
		return 0, err
	}
	const sysinfo = 33 // AT_SYSINFO_EHDR
	for ; len(text) >= 16; text = text[16:] {
		if binary.NativeEndian.Uint64(text) == sysinfo {
			return int64(binary.NativeEndian.Uint64(text[8:])), nil //nolint:gosec // user memory
		}
	}
	return 0, errors.New("the process has no vDSO")
}

// set makes the clock differ from the machine's, unless the process has ended.
func (c *clock) set(by time.Duration) error {
	_, err := c.memory.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(by/time.Second)), c.at) //nolint:gosec // two's complement is meant
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}

func (c *clock) close() { c.memory.Close() }

// runTeller tells the time when it is asked, and how long it has run.
func runTeller() {
	began := time.Now()
	for {
		if _, err := os.Stdin.Read(make([]byte, 1)); err != nil {
			return
		}
		now := time.Now()
		fmt.Println(now.Unix(), int64(now.Sub(began)))
	}
}

// TestClock: a clock that is set differs by what was asked for, and no other does. What
// measures durations goes on.
func TestClock(t *testing.T) {
	if why := clocks(); why != "" {
		t.Skip(why)
	}
	runtime.LockOSThread() // of the tracer
	defer runtime.UnlockOSThread()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), role+"="+teller)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Ptrace: true}
	ask, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	answers, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := errors.Join(ask.Close(), cmd.Wait()); err != nil {
			t.Error(err)
		}
	}()
	c, err := newClock(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	const near = time.Minute // a busy machine answers late
	last := int64(0)
	for _, by := range []time.Duration{0, 2 * time.Hour, -10 * 24 * time.Hour, 0} {
		if err := c.set(by); err != nil {
			t.Fatal(err)
		}
		if _, err := ask.Write([]byte{'?'}); err != nil {
			t.Fatal(err)
		}
		var wall, ran int64
		if _, err := fmt.Fscan(answers, &wall, &ran); err != nil {
			t.Fatal(err)
		}
		if off := time.Until(time.Unix(wall, 0)) - by; off.Abs() > near {
			t.Errorf("set by %v, it is off by %v more", by, off)
		}
		if ran < last || ran > last+int64(near) {
			t.Errorf("set by %v, it has run for %v after %v", by, time.Duration(ran), time.Duration(last))
		}
		last = ran
	}
}
