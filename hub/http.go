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

// The paths of the hub. The first is the Mercure protocol's. The second is a shorter name
// for the same. The third takes a body as the data.
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

// origins are the origins of pages whose scripts may read answers (Fetch standard,
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
		header.Add("Vary", "Origin") // also without an Origin: requests with one get another answer
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

// servePreflight answers the request that a browser makes before one that a form could
// not have made. The caller has already checked the origin.
func servePreflight(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Access-Control-Request-Method") != "" {
		w.Header().Set("Access-Control-Allow-Methods", "GET, POST")
		w.Header().Set("Access-Control-Allow-Headers", "Authorization, Cache-Control, Content-Type, Last-Event-ID")
		w.Header().Set("Access-Control-Max-Age", "86400")
	}
	w.Header().Set("Allow", "GET, POST, OPTIONS")
	w.WriteHeader(http.StatusNoContent)
}

// answer tells a client why its request is not served.
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
// does not wait for the client, because nothing has been written to the connection yet.
func (h *Hub) answerHijacked(c net.Conn, r *refusal) {
	h.stats.refused(r.status)
	c.SetWriteDeadline(time.Now().Add(h.cfg.WriteTimeout))
	_ = (&http.Response{ // the client may have gone
		StatusCode: r.status, ProtoMajor: 1, ProtoMinor: 1, Close: true,
		Header:        http.Header{"Retry-After": {retryAfter(r.after)}, "Content-Type": {"text/plain; charset=utf-8"}},
		Body:          io.NopCloser(strings.NewReader(r.text + "\n")),
		ContentLength: int64(len(r.text)) + 1,
	}).Write(c)
}

// retryAfter writes d for a header field: in whole seconds, rounded up.
func retryAfter(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10)
}

// formType is the type of the bodies of HTML forms.
const formType = "application/x-www-form-urlencoded"

// servePublishForm takes an update in the form of the Mercure protocol: an HTML form.
func (h *Hub) servePublishForm(w http.ResponseWriter, r *http.Request) {
	h.publish(w, r, formType, func(body []byte) (Update, error) {
		form, err := url.ParseQuery(string(body))
		if err != nil {
			return Update{}, err
		}
		u, err := parseUpdate(form)
		u.Data = []byte(form.Get("data"))
		return u, err
	})
}

// servePublishRaw takes an update whose data is the body. Its other fields are in the
// URL's query.
func (h *Hub) servePublishRaw(w http.ResponseWriter, r *http.Request) {
	h.publish(w, r, "", func(body []byte) (Update, error) {
		form, err := url.ParseQuery(r.URL.RawQuery)
		if err != nil {
			return Update{}, err
		}
		u, err := parseUpdate(form)
		u.Data = body
		return u, err
	})
}

// maxRetryField bounds the retry that publishers set, in milliseconds.
const maxRetryField = int64(maxRetry / time.Millisecond)

// parseUpdate reads the fields of an update except for its data.
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

// publish reads, checks and publishes an update, and answers with its ID. The body must be of that type, unless it is
// "". It reads nothing from clients that may not publish.
func (h *Hub) publish(w http.ResponseWriter, r *http.Request, bodyType string, parse func([]byte) (Update, error)) {
	granted, refused := h.mayPublish(r)
	if refused != nil {
		h.answer(w, refused)
		return
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); bodyType != "" && (err != nil || kind != bodyType) {
		h.answer(w, refuse(http.StatusUnsupportedMediaType, "content type: want %s", bodyType))
		return
	}
	b := body{bound: h.bodies}
	defer b.release()
	if refused := b.read(w, r, h.cfg.MaxUpdateBytes); refused != nil {
		h.answer(w, refused)
		return
	}
	u, err := parse(b.bytes)
	if err == nil {
		err = h.checkTopics(u.Topics) // before they are matched, which takes time for each
	}
	if err != nil {
		h.answer(w, refuse(http.StatusBadRequest, "%v", err))
		return
	}
	if refused := covers(granted, u.Topics); refused != nil {
		h.answer(w, refused)
		return
	}
	id, err := h.Publish(r.Context(), u)
	switch {
	case err == nil:
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("Content-Length", strconv.Itoa(len(id)))
		_, _ = io.WriteString(w, id) // the client may have gone
	case errors.Is(err, ErrUpdate):
		h.answer(w, refuse(http.StatusBadRequest, "%v", err))
	default:
		h.log.Warn("update not kept", "error", err)
		h.answer(w, &refusal{status: http.StatusServiceUnavailable, text: "the history cannot keep the update now", after: time.Second})
	}
}

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
	if err := checkTemplates(topics); err != nil {
		h.answer(w, refuse(http.StatusBadRequest, "topic: %v", err))
		return
	}
	rights, until, refused := h.maySubscribe(r)
	if refused != nil {
		h.answer(w, refused)
		return
	}
	s := &subscriber{
		registration: registration{address: host(r.RemoteAddr), since: time.Now(), until: until},
		ended:        make(chan struct{}), gone: make(chan struct{}),
	}
	if refused := h.reserve(&s.registration); refused != nil {
		h.answer(w, refused)
		return
	}
	header := w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-cache")
	header.Set("X-Accel-Buffering", "no") // nginx would otherwise buffer events
	if r.Method == http.MethodHead {
		h.release(&s.registration)
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
		// Perhaps nothing is missing. If the stream ends, clients come back with the same
		// Last-Event-ID; after an error status they would not.
		h.log.Debug("history not complete", "error", err)
		h.stats.postponed.Add(1)
		h.forget(&s.registration)
		_, _ = w.Write(begin) // a client that has gone comes back all the same
		return
	}
	switch {
	case last == "":
	case found:
		header.Set("Last-Event-ID", last)
	default:
		header.Set("Last-Event-ID", journal.Earliest)
	}
	if last != "" && !found {
		h.stats.gaps.Add(1)
		begin = journal.AppendGap(begin, journal.Gap{Missed: -1})
	}
	h.start(w, r, s, begin)
}

// host returns a client's address without its port. All clients of a Unix socket have the
// same.
func host(address string) string {
	h, _, err := net.SplitHostPort(address)
	if err != nil {
		return "unix"
	}
	return h
}

// place sets a subscriber's cursor by the ID of its last event, and reports whether the ID is known. If it is not,
// the subscriber gets the whole history: too much rather than too little. The error says that the history cannot tell
// at the moment.
func (h *Hub) place(ctx context.Context, s *subscriber, last string) (found bool, err error) {
	s.backlogTotal, s.backlog = h.journal.Total(), h.journal.Head()
	cursor := s.backlog
	switch last {
	case "":
		found = true
	case journal.Earliest:
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
// otherwise through net/http. In the first case the handler returns at once. This frees
// the memory that net/http needs for a request while the stream goes on.
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
			h.forget(&s.registration)
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
		h.forget(&s.registration)
		h.answer(w, refused)
		return
	}
	h.stats.responses.Add(1)
	defer h.stats.responses.Add(-1)
	why := h.stream(r.Context(), s, begin)
	out.deadline(time.Now().Add(h.cfg.WriteTimeout)) // of the end, which net/http writes
	h.leave(s, why)
}

// head returns a response's head for a body that ends with the connection.
func head(header http.Header) []byte {
	var b bytes.Buffer
	b.WriteString("HTTP/1.1 200 OK\r\nConnection: close\r\n")
	_ = header.Write(&b) // to memory, which cannot fail
	b.WriteString("\r\n")
	return b.Bytes()
}

// inputBytes bounds what a subscriber may send after its request.
const inputBytes = 4 << 10

// startHijacked streams on the connection itself. One goroutine writes, and one waits
// until the client closes.
func (h *Hub) startHijacked(c net.Conn, s *subscriber, begin []byte) {
	out := &connection{Conn: c}
	if h.cfg.MeasureFlush {
		out.flushed = h.stats.flushed
	}
	s.out = out
	if refused := h.enter(s); refused != nil {
		h.forget(&s.registration)
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

// setSocket sets the options of a subscriber's connection. The values that the kernel
// gave the first connection are logged and kept for the metrics.
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

// stopping is the answer to new subscribers while the hub drains, and afterwards.
func (h *Hub) stopping() *refusal {
	return &refusal{http.StatusServiceUnavailable, "the hub is stopping", max(h.cfg.Retry, time.Second)}
}

// reserve takes a place for a subscriber, if one is free.
func (h *Hub) reserve(s *registration) *refusal {
	h.mu.Lock()
	defer h.mu.Unlock()
	after := max(h.cfg.Retry, time.Second)
	switch {
	case h.draining:
		return h.stopping()
	case h.places >= h.cfg.MaxSubscribers:
		return &refusal{http.StatusServiceUnavailable, "the hub has as many subscribers as it allows", after}
	case h.addresses[s.address] >= h.cfg.MaxPerAddress:
		return &refusal{http.StatusTooManyRequests, "the hub has as many subscribers from this address as it allows", after}
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

// jittered returns the time that one client must wait before it reconnects. The
// caller holds mu.
func (h *Hub) jittered() time.Duration {
	return h.cfg.Retry + time.Duration(h.random.Int64N(int64(h.cfg.Retry)+1)).Truncate(time.Millisecond)
}

// release gives the place back.
func (h *Hub) release(s *registration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.places--
	if h.addresses[s.address]--; h.addresses[s.address] == 0 {
		delete(h.addresses, s.address)
	}
}

// forget releases the resources of a subscriber that was never entered, or has left.
func (h *Hub) forget(s *registration) {
	h.release(s)
	h.selectors.release(s.filter.wanted)
	h.selectors.release(s.filter.rights)
}

// enter adds a subscriber to the active ones, unless the hub has begun to stop.
func (h *Hub) enter(s *subscriber) *refusal {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.draining {
		return h.stopping()
	}
	h.active[s.id] = s
	h.streams.Add(1) // before draining is set; after that, Close waits
	h.stats.entered.Add(1)
	return nil
}

// leave is the opposite of enter.
func (h *Hub) leave(s *subscriber, why end) {
	s.mu.Lock()
	s.out = nil
	s.mu.Unlock()
	h.farewell(&s.registration, why)
	h.mu.Lock()
	delete(h.active, s.id) // only after its place is free: a client that sees that the subscriber has gone may come at once
	h.mu.Unlock()
	close(s.gone)
	h.departed.wake()
	h.streams.Done()
}

// farewell counts a subscriber whose stream has ended, and releases its resources.
func (h *Hub) farewell(s *registration, why end) {
	if h.log.Enabled(context.Background(), slog.LevelDebug) {
		h.log.Debug("subscriber ended", "id", s.id, "address", s.address, "reason", why.String(), "topics", strings.Join(texts(s.filter.wanted), " "))
	}
	h.forget(s)
	h.stats.ends[why].Add(1)
}
