package engine

// A queue is a bounded first-in first-out.
type queue[T any] struct {
	items       []T
	head, count int
	limit       int
}

// push reports whether there was room.
func (q *queue[T]) push(v T) bool {
	if q.count == q.limit {
		return false
	}
	if q.count == len(q.items) {
		q.grow()
	}
	q.items[(q.head+q.count)%len(q.items)] = v
	q.count++
	return true
}

// pushFront puts an item before all others, and reports whether there was room.
func (q *queue[T]) pushFront(v T) bool {
	if q.count == q.limit {
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

func (q *queue[T]) pop() T {
	v := q.items[q.head]
	q.head = (q.head + 1) % len(q.items)
	q.count--
	return v
}

// at returns the place of the item that i others are before.
func (q *queue[T]) at(i int) *T { return &q.items[(q.head+i)%len(q.items)] }

func (q *queue[T]) grow() {
	items := make([]T, min(max(64, 2*len(q.items)), q.limit))
	n := copy(items, q.items[q.head:])
	copy(items[n:], q.items[:q.head])
	q.items, q.head = items, 0
}

// A list links the members of a slice, by their places in it, in the order in which they
// were added. Since what it holds expires after the same time for all, the head is always
// the next to expire.
type list struct {
	head, tail int32
	links      []link
}

type link struct{ prev, next int32 }

// none is no place in a slice.
const none int32 = -1

// newList returns an empty list for the members of a slice of a length.
func newList(length int) list {
	return list{head: none, tail: none, links: make([]link, length)}
}

func (l *list) push(i int32) {
	l.links[i] = link{prev: l.tail, next: none}
	if l.tail == none {
		l.head = i
	} else {
		l.links[l.tail].next = i
	}
	l.tail = i
}

func (l *list) remove(i int32) {
	at := l.links[i]
	if at.prev == none {
		l.head = at.next
	} else {
		l.links[at.prev].next = at.next
	}
	if at.next == none {
		l.tail = at.prev
	} else {
		l.links[at.next].prev = at.prev
	}
}

// after returns the member after one, or none.
func (l *list) after(i int32) int32 { return l.links[i].next }

// An alarm is due at a time, for an exchange, with users for a user, or for a connection.
type alarm struct {
	at    int64
	whose int32
}

// alarms is a binary heap, the earliest first. Each of its kind has at most one alarm,
// so it never holds more than there are of them.
type alarms []alarm

func (a *alarms) push(v alarm) {
	*a = append(*a, v)
	h := *a
	for i := len(h) - 1; i > 0; {
		parent := (i - 1) / 2
		if h[parent].at <= h[i].at {
			break
		}
		h[parent], h[i] = h[i], h[parent]
		i = parent
	}
}

func (a *alarms) pop() alarm {
	h := *a
	first := h[0]
	last := len(h) - 1
	h[0] = h[last]
	h = h[:last]
	*a = h
	for i := 0; ; {
		child := 2*i + 1
		if child >= last {
			break
		}
		if child+1 < last && h[child+1].at < h[child].at {
			child++
		}
		if h[i].at <= h[child].at {
			break
		}
		h[i], h[child] = h[child], h[i]
		i = child
	}
	return first
}
