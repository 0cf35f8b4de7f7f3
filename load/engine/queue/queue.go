// Package queue keeps what waits in a worker of the engine: a bounded queue of values, and lists,
// alarms and timers of places in a slice. One thread uses each of them. Once as large as they get,
// none allocates.
package queue

import "math"

// never is when the first of no alarms is due.
const never = math.MaxInt64

// None is no place in a slice.
const None int32 = -1

// A FIFO is a bounded first-in first-out queue. The zero value holds nothing.
type FIFO[T any] struct {
	Limit       int // the most items
	items       []T
	head, count int
}

// Len returns the number of items.
func (q *FIFO[T]) Len() int { return q.count }

// Push adds an item after all others. It reports whether there was room.
func (q *FIFO[T]) Push(v T) bool {
	if q.count == q.Limit {
		return false
	}
	if q.count == len(q.items) {
		q.grow()
	}
	q.items[(q.head+q.count)%len(q.items)] = v
	q.count++
	return true
}

// PushFront adds an item before all others. It reports whether there was room.
func (q *FIFO[T]) PushFront(v T) bool {
	if q.count == q.Limit {
		return false
	}
	if q.count == len(q.items) {
		q.grow()
	}
	q.head = (q.head + len(q.items) - 1) % len(q.items)
	q.items[q.head] = v
	q.count++
	return true
}

// Pop removes the first item and returns it. The queue must not be empty.
func (q *FIFO[T]) Pop() T {
	v := q.items[q.head]
	q.head = (q.head + 1) % len(q.items)
	q.count--
	return v
}

// At returns the place of the item that i others are before.
func (q *FIFO[T]) At(i int) *T { return &q.items[(q.head+i)%len(q.items)] }

func (q *FIFO[T]) grow() {
	items := make([]T, min(max(64, 2*len(q.items)), q.Limit))
	n := copy(items, q.items[q.head:])
	copy(items[n:], q.items[:q.head])
	q.items, q.head = items, 0
}

// A List links places of a slice in the order in which they were added. If all members expire
// after the same time, the head is the next to expire.
type List struct {
	head, tail int32
	links      []link
}

type link struct{ prev, next int32 }

// NewList returns an empty list for the places of a slice of a length.
func NewList(length int) List {
	return List{head: None, tail: None, links: make([]link, length)}
}

// Head returns the first member, or None.
func (l *List) Head() int32 { return l.head }

// Several tells whether there is more than one member.
func (l *List) Several() bool { return l.head != l.tail }

// After returns the member after one, or None.
func (l *List) After(i int32) int32 { return l.links[i].next }

// Push adds a place, which is no member.
func (l *List) Push(i int32) {
	l.links[i] = link{prev: l.tail, next: None}
	if l.tail == None {
		l.head = i
	} else {
		l.links[l.tail].next = i
	}
	l.tail = i
}

// Remove removes a member.
func (l *List) Remove(i int32) {
	at := l.links[i]
	if at.prev == None {
		l.head = at.next
	} else {
		l.links[at.prev].next = at.next
	}
	if at.next == None {
		l.tail = at.prev
	} else {
		l.links[at.next].prev = at.prev
	}
}

// An Alarm is due at a time, for a place in a slice.
type Alarm struct {
	At    int64
	Whose int32
}

// Alarms is a binary heap of alarms, the earliest first. The caller sets one alarm per place at
// most, so that it never holds more than there are places.
type Alarms struct{ heap []Alarm }

// NewAlarms returns alarms with room for a number of them.
func NewAlarms(room int) Alarms { return Alarms{make([]Alarm, 0, room)} }

// Len returns how many alarms are set.
func (a *Alarms) Len() int { return len(a.heap) }

// Next returns when the first alarm is due: later than any time if none is set.
func (a *Alarms) Next() int64 {
	if len(a.heap) == 0 {
		return never
	}
	return a.heap[0].At
}

// Set sets an alarm.
func (a *Alarms) Set(at int64, whose int32) {
	a.heap = append(a.heap, Alarm{at, whose})
	h := a.heap
	for i := len(h) - 1; i > 0; {
		parent := (i - 1) / 2
		if h[parent].At <= h[i].At {
			break
		}
		h[parent], h[i] = h[i], h[parent]
		i = parent
	}
}

// Pop removes the first alarm and returns it. One must be set.
func (a *Alarms) Pop() Alarm {
	h := a.heap
	first := h[0]
	last := len(h) - 1
	h[0] = h[last]
	h = h[:last]
	a.heap = h
	for i := 0; ; {
		child := 2*i + 1
		if child >= last {
			break
		}
		if child+1 < last && h[child+1].At < h[child].At {
			child++
		}
		if h[i].At <= h[child].At {
			break
		}
		h[i], h[child] = h[child], h[i]
		i = child
	}
	return first
}
