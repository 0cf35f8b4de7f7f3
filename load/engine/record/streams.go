package record

import (
	"time"

	"dyno/load/delivery"
)

// Streams is what became of the subscribers. Times and counts run from the ramp's beginning to the
// drain's end, unless they name the window. Slow subscribers are in Slow and in the counts of
// connections, and in nothing else.
type Streams struct {
	Requested  int    // subscribers, as configured
	Untried    int    // of those, the ones whose first attempt had not ended when the load began
	Opened     uint64 // subscriptions that the server accepted, reconnections too
	Failed     uint64 // attempts that it did not: refused connections, other statuses, time-outs
	Reconnects uint64 // subscriptions opened by a subscriber that had had one before
	Ended      uint64 // subscriptions ended by the peer, in order or by a reset
	Broken     uint64 // subscriptions ended here, because the peer broke the protocol's rules
	Closed     uint64 // subscribers that the server asked not to come back
	Peak       int    // the most subscriptions that were open at once, summed over the workers
	Generator  uint64 // of Failed: for want of descriptors, ports or memory of the generator's own

	Served     int           // subscribers whom something reached in the window: an event, or a comment that keeps a stream alive
	Silent     int           // subscribers who have had a stream, and whom nothing reached in the window
	Quiet      int           // served subscribers whose stream had gone silent when the window ended
	Away       int           // subscribers without a stream when the window ended, whose last attempt at one had failed
	Subscribed time.Duration // how long the subscribers had a stream in the window, summed
	Silence    Silence       `sum:"-"` // of all subscribers together

	Delivered      uint64 // events that arrived in the window
	DeliveredBytes uint64 // of the stream, framing of HTTP not counted
	AllDelivered   uint64 // events that arrived at all
	Gaps           uint64 // events by which the server said that others are missing
	Unstamped      uint64 // events without a stamp, which are in no account below

	delivery.Account // of the events with a stamp

	Slow SlowStreams

	Failures map[string]uint64 // why attempts failed and subscriptions broke or were reset, the first 32 texts
}

// SlowStreams is what became of the subscribers that read slowly.
type SlowStreams struct {
	Requested int    // as configured
	Opened    uint64 // subscriptions that the server accepted
	Ended     uint64 // subscriptions that it ended
	Delivered uint64 // events that were read
	Gaps      uint64
	Announced uint64 // events missing between others, announced by a gap event
	Missing   uint64 // events missing between others, unannounced
}
