package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"runtime"
	"sync/atomic"
	"time"

	"dyno/experiments/subjects/measurement"

	"golang.org/x/sys/unix"
)

// The ways of a Direct writer.
const (
	ByBuffer = "buffer" // a new bytes.Buffer for each event, which is then written
	Directly = "direct"
	ToTwo    = "multi" // io.MultiWriter: the connection and a log that drops all
)

// A Direct writer sends events over loopback, one write each, to a peer that reads as much as comes.
//
// Figures: writes; write_seconds, the mean time of a write; cpu_seconds, of the thread that writes;
// allocations and allocated_bytes of a write.
type Direct struct {
	By       string        `yaml:"by" oneof:"buffer direct multi" default:"direct" doc:"buffer: by a new bytes.Buffer each; multi: by io.MultiWriter, to a log as well"`
	Bytes    int           `yaml:"bytes" range:"1..1048576" default:"100" doc:"of an event"`
	Duration time.Duration `yaml:"duration" range:"1us..10m" default:"1s" doc:"how long to measure"`
}

// Run writes for the duration.
func (d Direct) Run(ctx context.Context) (_ measurement.Result, err error) {
	near, far, err := pair(ctx)
	if err != nil {
		return nil, err
	}
	read := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, far)
		read <- errors.Join(err, far.Close())
	}()
	defer func() { err = errors.Join(err, near.Close(), <-read) }()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	write := d.writer(near)
	var stop atomic.Bool
	defer stopAfter(ctx, d.Duration, &stop)()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu, err := used(unix.RUSAGE_THREAD)
	began, n := time.Now(), 0.0
	for ; err == nil && !stop.Load(); n++ {
		err = write()
	}
	took := time.Since(began)
	spent, err2 := used(unix.RUSAGE_THREAD)
	runtime.ReadMemStats(&after)
	if err := errors.Join(err, err2, interrupted(ctx)); err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, errNothing
	}
	return measurement.Result{
		"writes":          n,
		"write_seconds":   took.Seconds() / n,
		"cpu_seconds":     spent.less(cpu).cpu.Seconds() / n,
		"allocations":     float64(after.Mallocs-before.Mallocs) / n,
		"allocated_bytes": float64(after.TotalAlloc-before.TotalAlloc) / n,
	}, nil
}

// writer returns what writes an event.
func (d Direct) writer(to net.Conn) func() error {
	event := make([]byte, d.Bytes)
	switch d.By {
	case ByBuffer:
		return func() error {
			var b bytes.Buffer
			b.Write(event)
			_, err := b.WriteTo(to)
			return err
		}
	case ToTwo:
		to := io.MultiWriter(to, io.Discard)
		return func() error { _, err := to.Write(event); return err }
	default:
		return func() error { _, err := to.Write(event); return err }
	}
}
