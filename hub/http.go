package hub

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"dyno/hub/journal"
)

// Paths of the hub. The first is the Mercure protocol's, the second says the same
// in short; the third takes bodies as they are.
const (
	pathMercure = "/.well-known/mercure"
	pathEvents  = "/events"
	pathPublish = "/publish"
)

func (h *Hub) routes() http.Handler {
	mux := http.NewServeMux()
	for _, path := range []string{pathMercure, pathEvents} {
		mux.HandleFunc("GET "+path, h.serveSubscribe)
		mux.HandleFunc("POST "+path, h.servePublishForm)
		mux.HandleFunc("OPTIONS "+path, servePreflight)
	}
	mux.HandleFunc("POST "+pathPublish, h.servePublishRaw)
	mux.HandleFunc("OPTIONS "+pathPublish, servePreflight)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.origins.allow(w, r)
		mux.ServeHTTP(w, r)
	})
}

// origins are those of pages whose scripts may read answers (Fetch standard,
// section 3.2).
type origins struct {
	all  bool
	some map[string]bool
}

func newOrigins(list []string) origins {
	o := origins{some: map[string]bool{}}
	for _, origin := range list {
		o.all = o.all || origin == "*"
		o.some[origin] = true
	}
	return o
}

func (o origins) allow(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	if !o.all && len(o.some) > 0 {
		header.Add("Vary", "Origin") // also for who sends none: the answer is another for who does
	}
	switch origin := r.Header.Get("Origin"); {
	case origin == "":
		return
	case o.all:
		header.Set("Access-Control-Allow-Origin", "*")
	case o.some[origin]:
		header.Set("Access-Control-Allow-Origin", origin)
		header.Set("Access-Control-Allow-Credentials", "true")
	default:
		return
	}
	header.Set("Access-Control-Expose-Headers", "Last-Event-ID")
}

// servePreflight answers what browsers ask before a request that a form could not
// have made. The origin has been dealt with.
func servePreflight(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Access-Control-Request-Method") != "" {
		w.Header().Set("Access-Control-Allow-Methods", "GET, POST")
		w.Header().Set("Access-Control-Allow-Headers", "Authorization, Cache-Control, Content-Type, Last-Event-ID")
		w.Header().Set("Access-Control-Max-Age", "86400")
	}
	w.Header().Set("Allow", "GET, POST, OPTIONS")
	w.WriteHeader(http.StatusNoContent)
}

// answer tells a client why it is not served.
func (h *Hub) answer(w http.ResponseWriter, r *refusal) {
	if r.after > 0 {
		w.Header().Set("Retry-After", retryAfter(r.after))
	}
	if r.status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	h.stats.refused(r.status)
	http.Error(w, r.text, r.status)
}

// answerHijacked is answer for a connection that net/http does not serve any more. It
// does not wait for the client: nothing has been written to it yet.
func (h *Hub) answerHijacked(c net.Conn, r *refusal) {
	h.stats.refused(r.status)
	c.SetWriteDeadline(time.Now().Add(h.cfg.WriteTimeout))
	_ = (&http.Response{ // a client that has gone needs none
		StatusCode: r.status, ProtoMajor: 1, ProtoMinor: 1, Close: true,
		Header:        http.Header{"Retry-After": {retryAfter(r.after)}, "Content-Type": {"text/plain; charset=utf-8"}},
		Body:          io.NopCloser(strings.NewReader(r.text + "\n")),
		ContentLength: int64(len(r.text)) + 1,
	}).Write(c)
}

// retryAfter is d as a header field has it: whole seconds, rounded up.
func retryAfter(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10)
}

// servePublishForm takes an update as the Mercure protocol has it: a form.
func (h *Hub) servePublishForm(w http.ResponseWriter, r *http.Request) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/x-www-form-urlencoded" {
		h.answer(w, refuse(http.StatusUnsupportedMediaType, "content type: want application/x-www-form-urlencoded"))
		return
	}
	h.publish(w, r, func(body []byte) (Update, error) {
		form, err := url.ParseQuery(string(body))
		if err != nil {
			return Update{}, err
		}
		u, err := parseUpdate(form)
		u.Data = []byte(form.Get("data"))
		return u, err
	})
}

// servePublishRaw takes an update whose data is the body, and whose other fields are
// in the address.
func (h *Hub) servePublishRaw(w http.ResponseWriter, r *http.Request) {
	h.publish(w, r, func(body []byte) (Update, error) {
		form, err := url.ParseQuery(r.URL.RawQuery)
		if err != nil {
			return Update{}, err
		}
		u, err := parseUpdate(form)
		u.Data = body
		return u, err
	})
}

// maxRetryField bounds the retry that publishers give, in milliseconds.
const maxRetryField = int64(maxRetry / time.Millisecond)

// parseUpdate reads the fields of an update but its data.
func parseUpdate(form url.Values) (Update, error) {
	u := Update{Topics: form["topic"], Private: form.Has("private"), ID: form.Get("id"), Type: form.Get("type")}
	if text := form.Get("retry"); text != "" {
		n, err := strconv.ParseUint(text, 10, 63)
		if err != nil || int64(n) > maxRetryField {
			return Update{}, errors.New("retry: must be a number of milliseconds from 0 to " + strconv.FormatInt(maxRetryField, 10))
		}
		u.Retry = time.Duration(n) * time.Millisecond
	}
	return u, nil
}

// publish reads, checks and publishes an update, and answers with its ID.
func (h *Hub) publish(w http.ResponseWriter, r *http.Request, parse func([]byte) (Update, error)) {
	body, err := readBody(w, r, h.cfg.MaxUpdateBytes)
	if err != nil {
		var long *http.MaxBytesError
		if errors.As(err, &long) {
			h.answer(w, refuse(http.StatusRequestEntityTooLarge, "an update has %d bytes at most", long.Limit))
		} else {
			h.answer(w, refuse(http.StatusBadRequest, "read body: %v", err))
		}
		return
	}
	u, err := parse(body)
	if err != nil {
		h.answer(w, refuse(http.StatusBadRequest, "%v", err))
		return
	}
	if refused := h.mayPublish(r, u.Topics); refused != nil {
		h.answer(w, refused)
		return
	}
	id, err := h.Publish(r.Context(), u)
	switch {
	case err == nil:
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("Content-Length", strconv.Itoa(len(id)))
		_, _ = io.WriteString(w, id) // a client that has gone needs no answer
	case errors.Is(err, ErrUpdate):
		h.answer(w, refuse(http.StatusBadRequest, "%v", err))
	default:
		h.log.Warn("update not kept", "error", err)
		h.answer(w, &refusal{status: http.StatusServiceUnavailable, text: "the history cannot keep the update now", after: time.Second})
	}
}

// readBody reads a body of limit bytes at most, at once where its length is known.
func readBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	if r.ContentLength > limit {
		return nil, &http.MaxBytesError{Limit: limit}
	}
	var b bytes.Buffer
	b.Grow(int(max(r.ContentLength, 0)) + bytes.MinRead)
	_, err := b.ReadFrom(http.MaxBytesReader(w, r.Body, limit))
	return b.Bytes(), err
}

// earliest is the ID that asks for the whole history, by the Mercure protocol.
const earliest = "earliest"

// serveSubscribe gives a subscriber its stream.
func (h *Hub) serveSubscribe(w http.ResponseWriter, r *http.Request) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		h.answer(w, refuse(http.StatusBadRequest, "%v", err))
		return
	}
	topics := unique(query["topic"])
	if len(topics) == 0 || topics[0] == "" || len(topics) > h.cfg.MaxTopics {
		h.answer(w, refuse(http.StatusBadRequest, "topic: must be given from 1 to %d times, and not be empty", h.cfg.MaxTopics))
		return
	}
	rights, until, refused := h.maySubscribe(r)
	if refused != nil {
		h.answer(w, refused)
		return
	}
	s := &subscriber{
		seat:  seat{address: host(r.RemoteAddr), since: time.Now(), until: until},
		ended: make(chan struct{}), gone: make(chan struct{}),
	}
	if refused := h.reserve(&s.seat); refused != nil {
		h.answer(w, refused)
		return
	}
	header := w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-cache")
	header.Set("X-Accel-Buffering", "no") // nginx would hold events back
	if r.Method == http.MethodHead {
		h.release(&s.seat)
		return
	}
	s.filter = filter{h.selectors.acquire(topics), h.selectors.acquire(unique(rights))}
	var begin []byte
	if s.retry > 0 {
		begin = journal.AppendRetry(begin, s.retry)
	}
	last := r.Header.Get("Last-Event-ID")
	if last == "" {
		last = query.Get("lastEventID")
	}
	if last == "" {
		last = query.Get("Last-Event-ID")
	}
	found, err := h.place(r.Context(), s, last)
	if err != nil {
		// It may be that nothing is missing. A stream that ends is one that clients come
		// back for, with the same Last-Event-ID; after an error they would not.
		h.log.Debug("history not complete", "error", err)
		h.stats.postponed.Add(1)
		h.forget(&s.seat)
		_, _ = w.Write(begin) // a client that has gone comes back all the same
		return
	}
	switch {
	case last == "":
	case found:
		header.Set("Last-Event-ID", last)
	default:
		header.Set("Last-Event-ID", earliest)
	}
	if last != "" && !found {
		h.stats.gaps.Add(1)
		begin = journal.AppendGap(begin, journal.Gap{Missed: -1})
	}
	h.start(w, r, s, begin)
}

// host is the address of a client without its port; all clients of a Unix socket
// are one.
func host(address string) string {
	h, _, err := net.SplitHostPort(address)
	if err != nil {
		return "unix"
	}
	return h
}

// place sets the cursor of a subscriber whose last event had that ID, and tells
// whether it is known. If not, the subscriber is given the whole history: better too
// much than too little. The error says that it cannot be told at the moment.
func (h *Hub) place(ctx context.Context, s *subscriber, last string) (found bool, err error) {
	s.backlogTotal, s.backlog = h.journal.Total(), h.journal.Head()
	cursor := s.backlog
	switch last {
	case "":
		found = true
	case earliest:
		cursor, found = h.journal.Oldest()-1, true
	default:
		if cursor, found = h.journal.Seek(last); !found {
			if err := h.history.CatchUp(ctx); err != nil {
				return false, err
			}
			if cursor, found = h.journal.Seek(last); !found {
				cursor = h.journal.Oldest() - 1
			}
		}
	}
	s.cursor.Store(cursor)
	s.total.Store(s.backlogTotal)
	if next, _ := h.journal.Since(cursor, nil, 1); len(next) > 0 {
		s.total.Store(next[0].Total - uint64(len(next[0].Frame)))
	}
	s.own = h.cfg.newAllowance(s.backlog, s.backlogTotal)
	s.watched = s.own
	return found, nil
}

// start streams on the connection itself if that is configured and possible, and
// else through net/http. In the first case the handler returns at once, so that
// what net/http needs of memory for a request is free while the stream goes on.
func (h *Hub) start(w http.ResponseWriter, r *http.Request, s *subscriber, begin []byte) {
	conn, _ := r.Context().Value(connKey{}).(net.Conn)
	control := http.NewResponseController(w)
	if h.cfg.Hijack && r.ProtoMajor == 1 {
		c, _, err := control.Hijack()
		if err == nil {
			h.setSocket(c)
			begin = append(head(w.Header()), begin...)
			if own, ok := h.looped(c); ok {
				h.handOver(r.Context(), own, s, begin)
				return
			}
			h.startHijacked(c, s, begin)
			return
		}
		if !errors.Is(err, http.ErrNotSupported) {
			h.log.Debug("hijack", "error", err)
			h.forget(&s.seat)
			return
		}
	}
	h.setSocket(conn)
	out := &response{w: w, control: control}
	if h.cfg.MeasureFlush {
		out.flushed = h.stats.flushed
	}
	s.out = out
	if refused := h.enter(s); refused != nil {
		h.forget(&s.seat)
		h.answer(w, refused)
		return
	}
	h.stats.responses.Add(1)
	defer h.stats.responses.Add(-1)
	h.leave(s, h.stream(r.Context(), s, begin))
}

// head is a response's head for a body that ends with the connection.
func head(header http.Header) []byte {
	var b bytes.Buffer
	b.WriteString("HTTP/1.1 200 OK\r\nConnection: close\r\n")
	_ = header.Write(&b) // to memory
	b.WriteString("\r\n")
	return b.Bytes()
}

// inputBytes bounds what a subscriber may send after its request.
const inputBytes = 4 << 10

// startHijacked streams on a connection of its own: one goroutine writes, one waits
// for the client's end.
func (h *Hub) startHijacked(c net.Conn, s *subscriber, begin []byte) {
	out := &connection{Conn: c}
	if h.cfg.MeasureFlush {
		out.flushed = h.stats.flushed
	}
	s.out = out
	if refused := h.enter(s); refused != nil {
		h.forget(&s.seat)
		h.stats.hijacked.Add(1)
		h.answerHijacked(c, refused)
		c.Close()
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	h.streams.Go(func() {
		defer cancel()
		var b [256]byte
		for taken := 0; taken < inputBytes; {
			n, err := c.Read(b[:])
			if err != nil {
				return
			}
			taken += n
		}
	})
	h.streams.Go(func() {
		defer cancel()
		why := h.stream(ctx, s, begin)
		c.Close()
		h.stats.hijacked.Add(1)
		h.leave(s, why)
	})
}

// setSocket sets the options of a subscriber's connection. What the kernel made of
// the first is logged and kept for the metrics.
func (h *Hub) setSocket(c net.Conn) {
	if c == nil && h.cfg.socketOptions() {
		h.unconnected.Do(func() { h.log.Warn("socket options not set", "error", "the server does not call ConnContext") })
		return
	}
	options, err := h.cfg.setSocket(c)
	if err != nil {
		h.log.Warn("socket", "error", err)
	}
	if options == nil {
		return
	}
	h.mu.Lock()
	first := h.options == nil
	if first {
		h.options = options
	}
	h.mu.Unlock()
	if first {
		for _, o := range options {
			h.log.Info("socket option", "name", o.name, "asked", o.asked, "given", o.given)
		}
	}
}

// stopping is what new subscribers are told while the hub drains, and afterwards.
func (h *Hub) stopping() *refusal {
	return &refusal{http.StatusServiceUnavailable, "the hub is stopping", max(h.cfg.Retry, time.Second)}
}

// reserve takes a place for a subscriber, if there is one.
func (h *Hub) reserve(s *seat) *refusal {
	h.mu.Lock()
	defer h.mu.Unlock()
	after := max(h.cfg.Retry, time.Second)
	switch {
	case h.draining:
		return h.stopping()
	case h.places >= h.cfg.MaxSubscribers:
		return &refusal{http.StatusServiceUnavailable, "there are as many subscribers as there may be", after}
	case h.addresses[s.address] >= h.cfg.MaxPerAddress:
		return &refusal{http.StatusTooManyRequests, "there are as many subscribers from this address as there may be", after}
	}
	h.places++
	h.addresses[s.address]++
	h.lastID++
	s.id = h.lastID
	if h.cfg.Retry > 0 {
		s.retry = h.jittered()
	}
	return nil
}

// jittered returns what one client is told to wait before it reconnects. The caller
// holds mu.
func (h *Hub) jittered() time.Duration {
	return h.cfg.Retry + time.Duration(h.random.Int64N(int64(h.cfg.Retry)+1)).Truncate(time.Millisecond)
}

// release gives the place back.
func (h *Hub) release(s *seat) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.places--
	if h.addresses[s.address]--; h.addresses[s.address] == 0 {
		delete(h.addresses, s.address)
	}
}

// forget gives back what a subscriber has that was never entered, or has left.
func (h *Hub) forget(s *seat) {
	h.release(s)
	h.selectors.release(s.filter.wanted)
	h.selectors.release(s.filter.rights)
}

// enter makes a subscriber known, unless the hub has begun to stop.
func (h *Hub) enter(s *subscriber) *refusal {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.draining {
		return h.stopping()
	}
	h.active[s.id] = s
	h.streams.Add(1) // before draining is set, after which Close waits
	h.stats.entered.Add(1)
	return nil
}

// leave is the opposite of enter.
func (h *Hub) leave(s *subscriber, why end) {
	s.mu.Lock()
	s.out = nil
	s.mu.Unlock()
	h.farewell(&s.seat, why)
	h.mu.Lock()
	delete(h.active, s.id) // not before its place is free: who sees that it has gone may come
	h.mu.Unlock()
	close(s.gone)
	h.departed.wake()
	h.streams.Done()
}

// farewell counts a subscriber that has ended, and gives back what it had.
func (h *Hub) farewell(s *seat, why end) {
	if h.log.Enabled(context.Background(), slog.LevelDebug) {
		h.log.Debug("subscriber ended", "id", s.id, "address", s.address, "reason", why.String(), "topics", strings.Join(texts(s.filter.wanted), " "))
	}
	h.forget(s)
	h.stats.ends[why].Add(1)
}
