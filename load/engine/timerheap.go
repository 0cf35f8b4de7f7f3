package engine

// A timerHeap is a binary heap of subscribers by the time of their timer, the earliest
// first. A subscriber is in it at most once and knows its place, so it can be moved and
// taken out.
type timerHeap []int32

// set sets a subscriber's timer, in place of the one it had.
func (t *timerHeap) set(all []subscriber, i int32, at int64) {
	s := &all[i]
	s.timer = at
	if s.place == none {
		s.place = int32(len(*t)) //nolint:gosec // bounded by the number of subscribers
		*t = append(*t, i)
	}
	t.down(all, t.up(all, s.place))
}

// clear takes a subscriber out, if it is in.
func (t *timerHeap) clear(all []subscriber, i int32) {
	at := all[i].place
	if at == none {
		return
	}
	all[i].place = none
	last := int32(len(*t) - 1) //nolint:gosec // bounded by the number of subscribers
	moved := (*t)[last]
	*t = (*t)[:last]
	if at == last {
		return
	}
	(*t)[at] = moved
	all[moved].place = at
	t.down(all, t.up(all, at))
}

func (t *timerHeap) up(all []subscriber, at int32) int32 {
	h := *t
	for at > 0 {
		parent := (at - 1) / 2
		if all[h[parent]].timer <= all[h[at]].timer {
			break
		}
		t.swap(all, parent, at)
		at = parent
	}
	return at
}

func (t *timerHeap) down(all []subscriber, at int32) {
	h := *t
	for {
		child := int(2*at + 1)
		if child >= len(h) {
			return
		}
		if child+1 < len(h) && all[h[child+1]].timer < all[h[child]].timer {
			child++
		}
		if all[h[at]].timer <= all[h[child]].timer {
			return
		}
		t.swap(all, at, int32(child)) //nolint:gosec // a place in the heap
		at = int32(child)             //nolint:gosec // a place in the heap
	}
}

func (t *timerHeap) swap(all []subscriber, i, j int32) {
	h := *t
	h[i], h[j] = h[j], h[i]
	all[h[i]].place, all[h[j]].place = i, j
}
