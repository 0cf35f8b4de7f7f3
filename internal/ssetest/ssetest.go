// Package ssetest reads event streams as the HTML standard says (section 9.2.6), step by step, with all of a stream at hand.
// Parsers that read piece by piece are tested against it.
package ssetest

import (
	"strconv"
	"strings"
	"time"

	"pgregory.net/rapid"
)

// An Event is what a source dispatches.
type Event struct {
	Type, Data, ID string
	At             int // where in the stream it ended
}

// A Reading is all that a stream has.
type Reading struct {
	Events []Event
	ID     string
	Retry  time.Duration
	Rest   int // where the event begins that does not end
}

// Read reads a stream. A time for the next attempt is at most longest.
func Read(stream string, longest time.Duration) (r Reading) {
	stream, marked := strings.CutPrefix(stream, "\ufeff")
	offset := 0
	if marked {
		offset = len("\ufeff")
	}
	r.Rest = offset
	var data, kind, id string
	for i := 0; ; {
		end := strings.IndexAny(stream[i:], "\r\n")
		if end < 0 {
			return r // what is left is discarded
		}
		line := stream[i : i+end]
		next := i + end + 1
		ended := next
		if stream[next-1] == '\r' && next < len(stream) && stream[next] == '\n' {
			next++
		}
		i = next
		if line == "" {
			r.ID, r.Rest = id, offset+next
			if data == "" {
				kind = ""
				continue
			}
			r.Events = append(r.Events, Event{kind, strings.TrimSuffix(data, "\n"), id, offset + ended})
			data, kind = "", ""
			continue
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "event":
			kind = value
		case "data":
			data += value + "\n"
		case "id":
			if !strings.Contains(value, "\x00") {
				id = value
			}
		case "retry":
			if value != "" && strings.Trim(value, "0123456789") == "" {
				ms, err := strconv.ParseUint(value, 10, 64)
				if most := uint64(longest.Milliseconds()); err != nil || ms > most { //nolint:gosec // not negative
					ms = most
				}
				r.Retry = time.Duration(ms) * time.Millisecond //nolint:gosec // bounded
			}
		}
	}
}

// Draw draws bytes among which there are many events.
func Draw(t *rapid.T) []byte {
	words := rapid.SampledFrom([]string{
		"data", "data:", "data: ", "event:", "id: ", "id", "retry:", ":", " ", "1", "23", "abc", "\x00", "\ufeff", "\xef", "\xbb", "ü", "\xff",
		"\n", "\n", "\n\n", "\r", "\r\n", "\r\n\r\n",
	})
	return []byte(strings.Join(rapid.SliceOfN(words, 0, 60).Draw(t, "words"), ""))
}
