package calls

// timers are calls by the time when something is due for them: a heap whose first is the
// next. A call is in it once at most, and knows its place.
type timers struct{ heap []*call }

// set puts a call in, or in another place.
func (t *timers) set(k *call, due int64) {
	if k.place < 0 {
		k.place = len(t.heap)
		t.heap = append(t.heap, k)
	}
	k.due = due
	t.up(k.place)
	t.down(k.place)
}

// remove takes a call out, if it is in.
func (t *timers) remove(k *call) {
	i := k.place
	if i < 0 {
		return
	}
	last := len(t.heap) - 1
	t.swap(i, last)
	t.heap[last] = nil
	t.heap = t.heap[:last]
	k.place = -1
	if i < last {
		t.up(i)
		t.down(i)
	}
}

func (t *timers) swap(i, j int) {
	t.heap[i], t.heap[j] = t.heap[j], t.heap[i]
	t.heap[i].place, t.heap[j].place = i, j
}

func (t *timers) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if t.heap[parent].due <= t.heap[i].due {
			return
		}
		t.swap(i, parent)
		i = parent
	}
}

func (t *timers) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(t.heap) {
			return
		}
		if child+1 < len(t.heap) && t.heap[child+1].due < t.heap[child].due {
			child++
		}
		if t.heap[i].due <= t.heap[child].due {
			return
		}
		t.swap(i, child)
		i = child
	}
}
