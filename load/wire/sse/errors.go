package sse

import "dyno/load/wire"

// Faults of an event stream. Each is returned as it is. Faults of the response around it are the errors
// of package http1.
var (
	ErrMediaType = protocol("content type other than text/event-stream")
	ErrLine      = limit("line longer than the limit, which is 1 MiB")
	ErrEvent     = limit("event's data longer than the limit, which is 1 MiB")
	ErrID        = protocol("event ID longer than 4096 bytes")
)

func protocol(text string) *wire.Error { return &wire.Error{Kind: wire.Protocol, Text: text} }
func limit(text string) *wire.Error    { return &wire.Error{Kind: wire.Limit, Text: text} }
