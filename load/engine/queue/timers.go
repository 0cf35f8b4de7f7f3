package queue

// Timers holds one timer for each place of a slice. They are in a binary heap, the earliest first.
// Each place knows where its timer is, so that a timer can be moved and cleared.
type Timers struct {
	at    []int64 // by place: when its timer is due
	where []int32 // by place: where it is in the heap, or None
	heap  []int32
}

// NewTimers returns length timers, none of them set.
func NewTimers(length int) Timers {
	t := Timers{at: make([]int64, length), where: make([]int32, length)}
	for i := range t.where {
		t.where[i] = None
	}
	return t
}

// Next returns when the first timer is due: later than any time if none is set.
func (t *Timers) Next() int64 {
	if len(t.heap) == 0 {
		return never
	}
	return t.at[t.heap[0]]
}

// Pop clears the first timer, and returns its place and when it was due. One must be set.
func (t *Timers) Pop() (i int32, at int64) {
	i = t.heap[0]
	t.Clear(i)
	return i, t.at[i]
}

// Set sets the timer of a place, instead of the one that it had.
func (t *Timers) Set(i int32, at int64) {
	t.at[i] = at
	if t.where[i] == None {
		t.where[i] = int32(len(t.heap)) //nolint:gosec // bounded by the number of places
		t.heap = append(t.heap, i)
	}
	t.down(t.up(t.where[i]))
}

// Clear clears the timer of a place, if it is set.
func (t *Timers) Clear(i int32) {
	k := t.where[i]
	if k == None {
		return
	}
	t.where[i] = None
	last := int32(len(t.heap) - 1) //nolint:gosec // bounded by the number of places
	moved := t.heap[last]
	t.heap = t.heap[:last]
	if k == last {
		return
	}
	t.heap[k], t.where[moved] = moved, k
	t.down(t.up(k))
}

// due returns when the timer at a place of the heap is due.
func (t *Timers) due(k int32) int64 { return t.at[t.heap[k]] }

func (t *Timers) up(k int32) int32 {
	for k > 0 {
		parent := (k - 1) / 2
		if t.due(parent) <= t.due(k) {
			break
		}
		t.swap(parent, k)
		k = parent
	}
	return k
}

func (t *Timers) down(k int32) {
	last := int32(len(t.heap) - 1) //nolint:gosec // bounded by the number of places
	for {
		child := 2*k + 1
		if child > last {
			return
		}
		if child < last && t.due(child+1) < t.due(child) {
			child++
		}
		if t.due(k) <= t.due(child) {
			return
		}
		t.swap(k, child)
		k = child
	}
}

func (t *Timers) swap(i, j int32) {
	t.heap[i], t.heap[j] = t.heap[j], t.heap[i]
	t.where[t.heap[i]], t.where[t.heap[j]] = i, j
}
