package engine

// An agenda is a binary heap of members by their deadline, the earliest first. A
// member is in it at most once, and can be taken out, since it knows its place.
type agenda []int32

// set gives a member a deadline, in place of the one it had.
func (a *agenda) set(members []subscription, i int32, at int64) {
	m := &members[i]
	m.deadline = at
	if m.place == none {
		m.place = int32(len(*a)) //nolint:gosec // bounded by the number of members
		*a = append(*a, i)
	}
	a.down(members, a.up(members, m.place))
}

// clear takes a member out, if it is in.
func (a *agenda) clear(members []subscription, i int32) {
	at := members[i].place
	if at == none {
		return
	}
	members[i].place = none
	last := int32(len(*a) - 1) //nolint:gosec // bounded by the number of members
	moved := (*a)[last]
	*a = (*a)[:last]
	if at == last {
		return
	}
	(*a)[at] = moved
	members[moved].place = at
	a.down(members, a.up(members, at))
}

func (a *agenda) up(members []subscription, at int32) int32 {
	h := *a
	for at > 0 {
		parent := (at - 1) / 2
		if members[h[parent]].deadline <= members[h[at]].deadline {
			break
		}
		a.swap(members, parent, at)
		at = parent
	}
	return at
}

func (a *agenda) down(members []subscription, at int32) {
	h := *a
	for {
		child := int(2*at + 1)
		if child >= len(h) {
			return
		}
		if child+1 < len(h) && members[h[child+1]].deadline < members[h[child]].deadline {
			child++
		}
		if members[h[at]].deadline <= members[h[child]].deadline {
			return
		}
		a.swap(members, at, int32(child)) //nolint:gosec // a place in the heap
		at = int32(child)                 //nolint:gosec // a place in the heap
	}
}

func (a *agenda) swap(members []subscription, i, j int32) {
	h := *a
	h[i], h[j] = h[j], h[i]
	members[h[i]].place, members[h[j]].place = i, j
}
