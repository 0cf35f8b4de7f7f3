package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"dyno/experiments/subjects/measurement"
	"dyno/internal/fields"
	"dyno/services/channels"
)

// Channels measures how fast records go from TCP connections through a channel into a file, and how many are
// lost. Producers and channel share the process.
//
// Figures: records_per_second, from the first write until the file has all of them;
// cpu_per_record_seconds, of producers and channel together; delivered, dropped (given up
// because the buffer was full) and lost (neither: the file was read again, and every
// record's checksum and number compared).
type Channels struct {
	Connections int    `yaml:"connections" range:"1..1000" default:"8" doc:"how many producers"`
	Records     int    `yaml:"records" range:"1..100000000" default:"400000" doc:"how many, in all"`
	Bytes       int    `yaml:"bytes" range:"1..65536" default:"100" doc:"of each record"`
	Buffer      int    `yaml:"buffer" range:"1..1048576" default:"4096" doc:"how many records the channel holds"`
	WhenFull    string `yaml:"when_full" oneof:"block drop-oldest drop-newest" default:"block" doc:"what happens if it is full"`
	Sync        string `yaml:"sync" oneof:"always interval never" default:"interval" doc:"when the file is forced to disk"`
}

// stuckAfter is how long no record may arrive before a channel counts as stuck.
const stuckAfter = 10 * time.Second

// Check reports connections without a record.
func (c Channels) Check(r *fields.Report) {
	r.Check(c.Records >= c.Connections, "records", "must be one for each connection at least", "")
}

// Run carries the records once.
func (c Channels) Run(ctx context.Context) (_ measurement.Result, err error) {
	dir, err := os.MkdirTemp("", "channels")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, "records")
	server, err := channels.New(channels.Config{Channels: []channels.Channel{{
		Name:   "records",
		Source: channels.Source{Kind: channels.TCP, Address: "127.0.0.1:0"},
		Buffer: channels.Buffer{Records: c.Buffer, WhenFull: c.WhenFull},
		Sink:   channels.Sink{Kind: channels.File, Path: path, Format: channels.Framed, Sync: c.Sync},
	}}}, slog.New(slog.DiscardHandler), nil, nil, io.Discard)
	if err != nil {
		return nil, err
	}
	before, err := used(unix.RUSAGE_SELF)
	if err != nil {
		return nil, errors.Join(err, server.Close())
	}
	began := time.Now()
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	served := make(chan error, 1)
	go func() { served <- server.Serve(work) }()
	err = c.produce(ctx, server.Addr("records").String())
	if err == nil {
		err = c.received(ctx, server)
	}
	stop() // what was received is delivered
	err = errors.Join(err, <-served)
	elapsed := time.Since(began)
	after, err2 := used(unix.RUSAGE_SELF)
	if err := errors.Join(err, err2); err != nil {
		return nil, err
	}
	sum, err := verify(path)
	if err != nil {
		return nil, err
	}
	dropped := server.Stats()[0].Dropped
	return measurement.Result{
		"records_per_second":     float64(c.total()) / elapsed.Seconds(),
		"cpu_per_record_seconds": after.less(before).cpu.Seconds() / float64(c.total()),
		"delivered":              float64(sum.Records),
		"dropped":                float64(dropped),
		"lost":                   float64(c.total()) - float64(sum.Records) - float64(dropped),
	}, nil
}

func (c Channels) total() int { return c.Records / c.Connections * c.Connections }

// produce writes all records, as lines.
func (c Channels) produce(ctx context.Context, address string) error {
	line := append(bytes.Repeat([]byte("x"), c.Bytes), '\n')
	batch := bytes.Repeat(line, max(1, 64<<10/len(line)))
	producers, ctx := errgroup.WithContext(ctx)
	for range c.Connections {
		producers.Go(func() error {
			conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
			if err != nil {
				return err
			}
			defer context.AfterFunc(ctx, func() { _ = conn.Close() })() // ends a write
			for left := c.total() / c.Connections * len(line); left > 0 && err == nil; left -= len(batch) {
				_, err = conn.Write(batch[:min(left, len(batch))])
			}
			return errors.Join(err, conn.Close())
		})
	}
	return producers.Wait()
}

// received waits until the channel has read all that was written.
func (c Channels) received(ctx context.Context, server *channels.Server) error {
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	last, moved := uint64(0), time.Now()
	for {
		n := server.Stats()[0].Received
		switch {
		case n == uint64(c.total()):
			return nil
		case n != last:
			last, moved = n, time.Now()
		case time.Since(moved) > stuckAfter:
			return fmt.Errorf("%d of %d records arrived, and none for %v", n, c.total(), stuckAfter)
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return interrupted(ctx)
		}
	}
}

func verify(path string) (channels.Summary, error) {
	f, err := os.Open(path)
	if err != nil {
		return channels.Summary{}, err
	}
	defer func() { _ = f.Close() }() // only read
	sum, err := channels.Verify(f, 64<<10)
	if err == nil && sum.Repeated > 0 {
		err = fmt.Errorf("%d records are in the file again", sum.Repeated)
	}
	return sum, err
}
