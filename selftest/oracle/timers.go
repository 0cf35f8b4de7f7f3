package oracle

// A timer is a time on the server's clock at which something is due: a
// connection's answer, or with no connection the server's own turn.
type timer struct {
	due  int64
	seq  uint64 // breaks ties in the order of setting
	conn *conn
}

// timers is a binary heap, earliest first. Written out rather than by
// container/heap because that boxes every element into an interface.
type timers struct {
	heap []timer
	seq  uint64
}

func (a timer) before(b timer) bool {
	return a.due < b.due || a.due == b.due && a.seq < b.seq
}

func (t *timers) push(due int64, c *conn) {
	t.seq++
	t.heap = append(t.heap, timer{due, t.seq, c})
	for i := len(t.heap) - 1; i > 0; {
		parent := (i - 1) / 2
		if !t.heap[i].before(t.heap[parent]) {
			break
		}
		t.heap[i], t.heap[parent] = t.heap[parent], t.heap[i]
		i = parent
	}
}

// next returns when the earliest timer is due, and whether there is one.
func (t *timers) next() (due int64, ok bool) {
	if len(t.heap) == 0 {
		return 0, false
	}
	return t.heap[0].due, true
}

// pop removes the earliest timer; there must be one.
func (t *timers) pop() timer {
	first, last := t.heap[0], len(t.heap)-1
	t.heap[0] = t.heap[last]
	t.heap[last] = timer{}
	t.heap = t.heap[:last]
	for i := 0; ; {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < last; child++ {
			if t.heap[child].before(t.heap[least]) {
				least = child
			}
		}
		if least == i {
			return first
		}
		t.heap[i], t.heap[least] = t.heap[least], t.heap[i]
		i = least
	}
}
