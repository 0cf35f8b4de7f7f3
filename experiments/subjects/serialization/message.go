package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"dyno/experiments/subjects/measurement"
	"dyno/experiments/subjects/serialization/formats"
	"dyno/experiments/subjects/serialization/formats/controlfb"
	"dyno/services/control/resource"
	"dyno/services/control/rpc/controlpb"
)

// A codec reads and writes a policy in one format. What it reads is as a program would have it: a struct of gob, a
// message of Protocol Buffers, and of FlatBuffers the bytes themselves.
type codec struct {
	formats.Format
	read func(text []byte) (any, error)
	// name reads one field of what was read.
	name func(message any) int
}

var codecs = map[string]codec{
	"gob": {formats.Gob, func(text []byte) (any, error) { return formats.Gob.Decode(text) }, func(m any) int {
		return len(m.(*formats.Document).Ref.Name)
	}},
	"protobuf": {formats.Protobuf, func(text []byte) (any, error) {
		m := new(controlpb.Resource)
		return m, proto.Unmarshal(text, m)
	}, func(m any) int { return len(m.(*controlpb.Resource).GetRef().GetName()) }},
	"flatbuffers": {formats.FlatBuffers, func(text []byte) (any, error) { return controlfb.GetRootAsResource(text, 0), nil }, func(m any) int {
		var ref controlfb.Ref
		return len(m.(*controlfb.Resource).Ref(&ref).Name())
	}},
}

// document returns a policy that takes about this number of bytes in Protocol Buffers.
func document(bytes int) (*formats.Document, error) {
	ref := resource.Ref{Kind: resource.Policies, Namespace: "shop", Name: "checkout-limits"}
	d := &formats.Document{Ref: ref, Policy: &resource.Policy{Namespace: ref.Namespace, Name: ref.Name}}
	for i := 0; ; i++ {
		text, err := formats.Protobuf.Append(nil, d)
		if err != nil || len(text) >= bytes {
			return d, err
		}
		d.Policy.Rules = append(d.Policy.Rules, resource.Rule{
			Match:  resource.Match{Services: []string{"checkout"}, Methods: []string{"POST"}, PathPrefix: fmt.Sprintf("/v1/orders/%d", i)},
			Action: resource.Limit, Limit: &resource.RateLimit{PerSecond: 500, Burst: 50},
		})
	}
}

// A Message reads and writes one message again and again, and keeps many.
//
// Figures: read_seconds, write_seconds, access_seconds, of one field of a message that was read; message_bytes;
// memory_per_byte, the memory of a kept message by the message's bytes, its own bytes included where it needs them.
type Message struct {
	Format   string        `yaml:"format" oneof:"gob protobuf flatbuffers" default:"protobuf" doc:"how messages are encoded"`
	Bytes    int           `yaml:"bytes" range:"64..1048576" default:"1024" doc:"the size of the message in Protocol Buffers; it has as many rules as that takes"`
	Kept     int           `yaml:"kept" range:"1..1000000" default:"2000" doc:"messages that are kept, to see what they take"`
	Duration time.Duration `yaml:"duration" range:"1ms..10m" default:"200ms" doc:"how long to read, and to write"`
}

// batch is the number of operations between two looks at the clock.
const batch = 64

// Run measures.
func (m Message) Run(ctx context.Context) (measurement.Result, error) {
	c := codecs[m.Format]
	d, err := document(m.Bytes)
	if err != nil {
		return nil, err
	}
	text, err := c.Append(nil, d)
	if err != nil {
		return nil, err
	}
	read, err := c.read(text)
	if err != nil {
		return nil, err
	}
	var errs [2]error
	sum := 0
	r := measurement.Result{
		"message_bytes":   float64(len(text)),
		"read_seconds":    m.time(ctx, func() { _, errs[0] = c.read(text) }),
		"write_seconds":   m.time(ctx, func() { _, errs[1] = c.Append(nil, d) }),
		"access_seconds":  m.time(ctx, func() { sum += c.name(read) }),
		"memory_per_byte": c.kept(text, m.Kept) / float64(len(text)),
	}
	if sum == 0 {
		return nil, errors.New("a message without a name was read")
	}
	return r, errors.Join(append(errs[:], ctx.Err())...)
}

// time returns how long do takes, on average.
func (m Message) time(ctx context.Context, do func()) float64 {
	began, n := time.Now(), 0
	for ; time.Since(began) < m.Duration && ctx.Err() == nil; n += batch {
		for range batch {
			do()
		}
	}
	return time.Since(began).Seconds() / float64(max(n, 1))
}

// kept returns the memory that a kept message takes, in bytes. Each one arrives in bytes of its own.
func (c codec) kept(text []byte, n int) float64 {
	heap := func() float64 {
		runtime.GC()
		runtime.GC() // what a finalizer held is collected by the second
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	messages := make([]any, n)
	before := heap()
	for i := range messages {
		messages[i], _ = c.read([]byte(strings.Clone(string(text)))) // it was read before
	}
	after := heap()
	runtime.KeepAlive(messages)
	return (after - before) / float64(n)
}
