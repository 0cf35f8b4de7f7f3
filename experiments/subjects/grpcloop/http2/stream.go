package http2

// A Stream is one call. It belongs to its connection until it is closed; after that its
// memory serves another call.
type Stream struct {
	Conn    *Conn
	Request Request
	// Data is the handler's, and stays with the stream's memory from call to call.
	Data any

	id       uint32
	send     int  // window for what the server sends
	recv     int  // window for what the client sends
	consumed int  // of the client's window, to be given back
	headers  bool // the response's header is sent
	ended    bool // the client has ended its side
	stalled  bool // waits for the client to open its window

	// In the list of streams that wait for the connection's window or for its output.
	waits          bool
	before, behind *Stream
}

// queue is a list of streams in the order of their waiting.
type queue struct {
	first, last *Stream
	length      int
}

func (q *queue) push(s *Stream) {
	s.waits, s.before, s.behind = true, q.last, nil
	if q.last != nil {
		q.last.behind = s
	} else {
		q.first = s
	}
	q.last = s
	q.length++
}

func (q *queue) remove(s *Stream) {
	if s.before != nil {
		s.before.behind = s.behind
	} else {
		q.first = s.behind
	}
	if s.behind != nil {
		s.behind.before = s.before
	} else {
		q.last = s.before
	}
	s.waits, s.before, s.behind = false, nil, nil
	q.length--
}

// Ended reports whether the client has ended its side of the call.
func (s *Stream) Ended() bool { return s.ended }

// ID is the stream's number on its connection; 0 when it is closed.
func (s *Stream) ID() uint32 { return s.id }

// streams are those of a connection by number: a hash table with linear probing. Clients
// number streams in sequence, so that collisions are rare.
type streams struct {
	slots []*Stream // its length is a power of two
	count int
}

func (t *streams) home(id uint32) int { return int(id>>1) & (len(t.slots) - 1) }

func (t *streams) get(id uint32) *Stream {
	if t.count == 0 {
		return nil
	}
	for i := t.home(id); ; i = (i + 1) & (len(t.slots) - 1) {
		if s := t.slots[i]; s == nil || s.id == id {
			return s
		}
	}
}

func (t *streams) put(s *Stream) {
	if 2*(t.count+1) > len(t.slots) {
		old := t.slots
		t.slots = make([]*Stream, max(8, 2*len(old)))
		t.count = 0
		for _, o := range old {
			if o != nil {
				t.put(o)
			}
		}
	}
	i := t.home(s.id)
	for t.slots[i] != nil {
		i = (i + 1) & (len(t.slots) - 1)
	}
	t.slots[i] = s
	t.count++
}

// remove takes a stream out and moves those that its place kept from their own.
func (t *streams) remove(id uint32) {
	mask := len(t.slots) - 1
	i := t.home(id)
	for t.slots[i] == nil || t.slots[i].id != id {
		i = (i + 1) & mask
	}
	t.count--
	for j := i; ; {
		j = (j + 1) & mask
		s := t.slots[j]
		if s == nil {
			break
		}
		// The stream at j may move to i unless its home lies between them.
		if (j-t.home(s.id))&mask >= (j-i)&mask {
			t.slots[i] = s
			i = j
		}
	}
	t.slots[i] = nil
}
