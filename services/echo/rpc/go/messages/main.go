// Command messages measures the echo's work on the messages of a unary call, without connections and calls: it
// repeatedly decodes a request, answers it, and encodes the answer, in one goroutine, by the servers' code. With
// --encode it only encodes the answer. It prints its figures as one line of JSON.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"

	"dyno/services/echo/rpc/echopb"
	"dyno/services/echo/rpc/go/grpcecho"
	"dyno/services/echo/rpc/go/grpcecho/formats"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// mostBytes bounds the payload, as the contract of the echo does.
const mostBytes = 4 << 20

// ways are how messages can be encoded, by name.
func ways() []string {
	return append(names(grpcecho.Serializations()), formats.FlatBuffers, formats.Gob)
}

func names(all []grpcecho.Serialization) (out []string) {
	for _, s := range all {
		out = append(out, string(s))
	}
	return out
}

// run carries out the command and returns its exit code.
func run(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("messages", flag.ContinueOnError)
	flags.SetOutput(stderr)
	way := flags.String("serialization", string(grpcecho.Generated), fmt.Sprintf("`HOW` messages are encoded: %s", strings.Join(ways(), ", ")))
	size := flags.Int("bytes", 1024, "of the payload, in `BYTES`")
	duration := flags.Duration("duration", 500*time.Millisecond, "how long to measure")
	encode := flags.Bool("encode", false, "encode the answer, and nothing else; Protocol Buffers only")
	write := flags.Bool("write", false, "write the request to standard output, and measure nothing")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2 // flags has said why
	}
	fail := func(code int, err error) int {
		fmt.Fprintf(stderr, "messages: %v\n", err)
		return code
	}
	var faults []error
	if flags.NArg() > 0 {
		faults = append(faults, fmt.Errorf("%q: there are options only", flags.Arg(0)))
	}
	if !slices.Contains(ways(), *way) {
		faults = append(faults, fmt.Errorf("--serialization: %q: must be one of %v", *way, ways()))
	}
	if *size < 0 || *size > mostBytes {
		faults = append(faults, fmt.Errorf("--bytes: %d: must be from 0 to %d", *size, mostBytes))
	}
	if *encode && !slices.Contains(grpcecho.Serializations(), grpcecho.Serialization(*way)) {
		faults = append(faults, fmt.Errorf("--encode: %s: must be one of %v", *way, grpcecho.Serializations()))
	}
	if *duration < time.Millisecond || *duration > time.Hour {
		faults = append(faults, fmt.Errorf("--duration: %v: must be from 1ms to 1h", *duration))
	}
	if err := errors.Join(faults...); err != nil {
		return fail(2, err)
	}
	h, err := handling(*way, *size)
	if err != nil {
		return fail(1, err)
	}
	if *write {
		if _, err := stdout.Write(h.request); err != nil {
			return fail(1, err)
		}
		return 0
	}
	if *encode {
		m := message(*size)
		h.answer = &echopb.EchoResponse{Text: m.Text, Payload: m.Payload}
	}
	f, err := h.measure(*duration)
	if err != nil {
		return fail(1, err)
	}
	if err := json.NewEncoder(stdout).Encode(f); err != nil {
		return fail(1, err)
	}
	return 0
}

// message returns the request whose payload has this size.
func message(size int) *echopb.EchoRequest {
	const text = "0123456789abcdef"
	return &echopb.EchoRequest{Text: text, Payload: []byte(strings.Repeat(text, size/len(text)+1)[:size])}
}

// A handler is what a server does with a request.
type handler struct {
	service *grpc.ServiceDesc
	codec   encoding.CodecV2
	request []byte
	payload int                  // bytes
	answer  *echopb.EchoResponse // what is encoded without a request; nil: requests are answered
}

func handling(way string, size int) (*handler, error) {
	h := &handler{payload: size}
	format := formats.Protobuf
	if s := grpcecho.Serialization(way); slices.Contains(grpcecho.Serializations(), s) {
		h.service, h.codec = s.Service(), s.Codec()
	} else {
		h.service, h.codec, format = formats.Service(), formats.Codec(way), way
	}
	var err error
	h.request, err = formats.AppendRequest(nil, format, message(size))
	return h, err
}

// once answers the request, and returns the bytes of the answer, which are the caller's to free.
func (h *handler) once(ctx context.Context) (mem.BufferSlice, error) {
	if h.answer != nil {
		return h.codec.Marshal(h.answer)
	}
	in := mem.BufferSlice{mem.SliceBuffer(h.request)}
	out, err := h.service.Methods[0].Handler(grpcecho.Service{}, ctx, func(v any) error { return h.codec.Unmarshal(in, v) }, nil)
	if err != nil {
		return nil, err
	}
	return h.codec.Marshal(out)
}

// figures are what one run measures, per operation: a request and its answer.
type figures struct {
	PerSecond     float64 `json:"operations_per_second"`
	Seconds       float64 `json:"operation_seconds"`
	Allocated     float64 `json:"allocated_bytes"`
	Allocations   float64 `json:"allocations"`
	Message       int     `json:"message_bytes"`
	Amplification float64 `json:"amplification"` // bytes of the message by those of its payload
}

// batch is how many operations there are from one look at the clock to the next.
const batch = 100

func (h *handler) measure(d time.Duration) (f figures, err error) {
	ctx := context.Background()
	round := func(d time.Duration) (operations int, took time.Duration, err error) {
		for start := time.Now(); took < d; took = time.Since(start) {
			for range batch {
				data, err := h.once(ctx)
				if err != nil {
					return operations, took, err
				}
				data.Free()
			}
			operations += batch
		}
		return operations, took, nil
	}
	if _, _, err := round(d / 5); err != nil { // caches and pools fill
		return f, err
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	n, took, err := round(d)
	if err != nil {
		return f, err
	}
	runtime.ReadMemStats(&after)
	f = figures{
		PerSecond:   float64(n) / took.Seconds(),
		Seconds:     took.Seconds() / float64(n),
		Allocated:   float64(after.TotalAlloc-before.TotalAlloc) / float64(n),
		Allocations: float64(after.Mallocs-before.Mallocs) / float64(n),
		Message:     len(h.request),
	}
	if h.payload > 0 {
		f.Amplification = float64(len(h.request)) / float64(h.payload)
	}
	return f, nil
}
