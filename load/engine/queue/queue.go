// Package queue keeps what waits in a worker of the engine: a bounded queue of values, and lists
// and timers of places in a slice. One thread uses each of them. Once as large as they get,
// none allocates.
package queue

import "math"

// never is when the first of no timers is due.
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

// NewList returns an empty list for places below length.
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
