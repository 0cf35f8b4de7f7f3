package child

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"time"
)

// Limits bound a process that works on what a stranger wrote.
type Limits struct {
	Time   time.Duration // from its start to its end
	CPU    time.Duration // of processor time
	Memory uint64        // bytes, in addition to what it has when it begins
	Output int64         // bytes that it may say
}

// A LimitError is about a process that was ended because it passed one of its limits.
type LimitError struct{ text string }

func (e *LimitError) Error() string { return e.text }

// A FailedError is about a process that ended with a fault of its own.
type FailedError struct {
	Says string // on standard error: its beginning
	err  error
}

func (e *FailedError) Error() string { return e.err.Error() }

// Unwrap returns how the process ended.
func (e *FailedError) Unwrap() error { return e.err }

const (
	mostFaults  = 64 << 10 // bytes of standard error that are kept
	memoryCode  = 83       // the exit code of a process that Answer ended
	memoryCheck = 10 * time.Millisecond
	mostStack   = 128 << 20 // bytes of the stack of a goroutine; Go would allow 1 GB
)

// Ask starts a program, gives it an input, and returns its output. The program first says an empty line, and then reads
// its input: by then its limits are in force. Ask ends a process that passes one of them.
//
// Time and Output hold on each system. The kernel enforces CPU and Memory on Linux only: os/exec cannot
// start a process with such limits elsewhere. Elsewhere a role of this program bounds its memory by
// Answer. Any other program has the limit of time alone.
func Ask(cmd *exec.Cmd, input []byte, l Limits) ([]byte, error) {
	in, inErr := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	faults := &beginning{}
	cmd.Stderr = faults
	cmd.WaitDelay = time.Second // for a descendant that keeps standard error open
	if err := errors.Join(inErr, outErr); err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	clock := time.AfterFunc(l.Time, func() { _ = cmd.Process.Kill() }) // it may have ended
	output, err := l.exchange(cmd.Process.Pid, in, out, input)
	if err != nil {
		_ = cmd.Process.Kill() // it may have ended
	}
	ended := cmd.Wait()
	isLate := !clock.Stop()
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return nil, err
	case ended == nil:
		return output, err
	case isLate:
		return nil, &LimitError{fmt.Sprintf("more than %s", l.Time)}
	}
	return nil, l.explain(cmd.ProcessState, string(faults.text), ended)
}

// exchange waits for the empty line, bounds the process, and gives it the input in exchange for its output.
func (l Limits) exchange(pid int, in io.WriteCloser, out io.Reader, input []byte) ([]byte, error) {
	line := make([]byte, 1)
	_, err := io.ReadFull(out, line)
	if err == nil && line[0] != '\n' {
		err = fmt.Errorf("the program begins with %q and not with an empty line", line)
	}
	if err == nil {
		err = bound(pid, l)
	}
	if err != nil {
		return nil, errors.Join(err, in.Close())
	}
	fed := make(chan struct{})
	go func() {
		defer close(fed)
		_, _ = in.Write(input) // fails if the process ends before it has read all, which its exit code says
		_ = in.Close()
	}()
	output, err := io.ReadAll(io.LimitReader(out, l.Output+1))
	if int64(len(output)) > l.Output {
		err = &LimitError{fmt.Sprintf("more than %d MiB of output", l.Output>>20)}
	}
	if err == nil {
		<-fed // the output has ended, and with it the process
	}
	return output, err
}

// outOfMemory is what Go, its race detector and Python say when the kernel gives them no more.
var outOfMemory = regexp.MustCompile(`out of memory|cannot allocate memory|too many address space collisions|failed to (?:allocate|mmap)|MemoryError`)

// explain says why a process ended.
func (l Limits) explain(state *os.ProcessState, says string, ended error) error {
	switch {
	case state.ExitCode() == memoryCode, outOfMemory.MatchString(says):
		return &LimitError{fmt.Sprintf("more than %d MiB of memory", l.Memory>>20)}
	case state.ExitCode() < 0 && state.UserTime()+state.SystemTime() > l.CPU/4: // the kernel counts ticks, which may differ much
		return &LimitError{fmt.Sprintf("more than %s of processor time", l.CPU)}
	case strings.Contains(says, "stack exceeds"):
		return &LimitError{fmt.Sprintf("a stack of more than %d MiB: something is nested too deep", mostStack>>20)}
	}
	return &FailedError{says, ended}
}

// Answer is the other side of Ask in a role: it turns the input into the output, and returns the exit code. It bounds
// the memory of this process, on each system.
func Answer(memory uint64, turn func(input []byte) (output []byte, err error)) (code int) {
	debug.SetMaxStack(mostStack)
	debug.SetMemoryLimit(int64(memory / 4 * 3)) // then the garbage collector works harder
	go func() {
		sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		for range time.Tick(memoryCheck) {
			if metrics.Read(sample); sample[0].Value.Uint64() > memory {
				os.Exit(memoryCode)
			}
		}
	}()
	_, err := os.Stdout.WriteString("\n")
	var input, output []byte
	if err == nil {
		input, err = io.ReadAll(os.Stdin)
	}
	if err == nil {
		output, err = turn(input)
	}
	if err == nil {
		_, err = os.Stdout.Write(output)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// beginning keeps the first bytes that are written to it.
type beginning struct{ text []byte }

func (b *beginning) Write(p []byte) (int, error) {
	b.text = append(b.text, p[:min(len(p), mostFaults-len(b.text))]...)
	return len(p), nil
}
