package sse

import (
	"bytes"
	"math"
)

// A Stamp is the beginning of an event's data. By it a subscriber recognises the event, whatever server
// passed it on:
//
//	dyno1 SOURCE SEQUENCE TIME ␠
//
// One space follows each field. The decimal numbers have 10, 12 and 19 digits with leading zeros;
// anything may follow them. The width is fixed, so that a publisher writes the numbers where they
// belong in the encoded request.
type Stamp struct {
	Source   uint32 // who publishes
	Sequence uint64 // from 1 to MaxSequence
	Time     int64  // when the publication was due, Unix time in nanoseconds; not negative
}

// StampBytes is the length of a stamp, with the space after it.
const StampBytes = len(stampWord) + sourceDigits + 1 + sequenceDigits + 1 + timeDigits + 1

// MaxSequence is the largest sequence number that a stamp can hold.
const MaxSequence = 1_000_000_000_000 - 1

const (
	stampWord      = "dyno1 "
	sourceDigits   = 10
	sequenceDigits = 12
	timeDigits     = 19
)

// ParseStamp reads the stamp at the beginning of data.
func ParseStamp(data []byte) (s Stamp, ok bool) {
	if len(data) < StampBytes || string(data[:len(stampWord)]) != stampWord {
		return Stamp{}, false
	}
	data = data[len(stampWord):StampBytes]
	source, ok1 := number(data[:sourceDigits+1])
	sequence, ok2 := number(data[sourceDigits+1 : sourceDigits+1+sequenceDigits+1])
	at, ok3 := number(data[sourceDigits+1+sequenceDigits+1:])
	if !ok1 || !ok2 || !ok3 || source > math.MaxUint32 || sequence == 0 || at > math.MaxInt64 {
		return Stamp{}, false
	}
	return Stamp{Source: uint32(source), Sequence: sequence, Time: int64(at)}, true
}

// FindStamp reads the first stamp in data, wherever it stands.
func FindStamp(data []byte) (s Stamp, ok bool) {
	at := bytes.Index(data, []byte(stampWord))
	if at < 0 {
		return Stamp{}, false
	}
	return ParseStamp(data[at:])
}

// number reads digits followed by one space. Up to 19 digits fit.
func number(field []byte) (n uint64, ok bool) {
	last := len(field) - 1
	for _, b := range field[:last] {
		d := b - '0'
		if d > 9 {
			return 0, false
		}
		n = n*10 + uint64(d)
	}
	return n, field[last] == ' '
}

// Put writes the stamp into p, which has the length StampBytes at least, with
// separator in place of the spaces.
func (s Stamp) Put(p []byte, separator byte) {
	at := copy(p, stampWord)
	p[at-1] = separator
	for _, f := range [...]struct {
		n     uint64
		width int
	}{{uint64(s.Source), sourceDigits}, {s.Sequence, sequenceDigits}, {uint64(max(s.Time, 0)), timeDigits}} { //nolint:gosec // not negative
		n := f.n
		for i := at + f.width - 1; i >= at; i-- {
			p[i] = byte('0' + n%10)
			n /= 10
		}
		at += f.width
		p[at] = separator
		at++
	}
}

// String returns the stamp as it stands in an event's data.
func (s Stamp) String() string {
	var b [StampBytes]byte
	s.Put(b[:], ' ')
	return string(b[:])
}
