package http2

import (
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"dyno/load/wire"
	"dyno/load/wire/wiretest"
)

// serve starts net/http's server for HTTP/2 without TLS, and returns its address.
func serve(t *testing.T, config http.HTTP2Config, handler http.HandlerFunc) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	s := &http.Server{Handler: handler, Protocols: protocols, HTTP2: &config}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(l)
	}()
	t.Cleanup(func() {
		s.Close()
		<-done
	})
	return l.Addr().String()
}

// A link is one of a client of this package.
type link struct {
	*wiretest.Link
	t *testing.T
	c *Client
}

func connect(t *testing.T, config Config, address string) *link {
	t.Helper()
	c := newClient(t, config)
	return &link{wiretest.Dial(t, c, address), t, c}
}

// bodyOf returns the content of an exchange: no two are alike.
func bodyOf(number int) string {
	line := fmt.Sprintf("content %d;", number)
	return strings.Repeat(line, []int{0, 1, 3, 100, 2000, 10_000}[number%6])
}

// echo answers with the request's body, the sum of its bytes in a trailer, and its number
// in a header.
func echo(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Trailer", "X-Sum")
	w.Header().Set("X-Number", r.Header.Get("X-Number"))
	if n, _ := strconv.Atoi(r.Header.Get("X-Number")); n%5 == 0 {
		w.WriteHeader(http.StatusAccepted)
	}
	buf := make([]byte, 3000)
	sum := 0
	for {
		n, err := r.Body.Read(buf)
		for _, b := range buf[:n] {
			sum += int(b)
		}
		if _, err := w.Write(buf[:n]); err != nil {
			return
		}
		if err != nil {
			break
		}
	}
	w.Header().Set("X-Sum", strconv.Itoa(sum))
}

// echoConfig are POSTs whose path, number and body vary.
func echoConfig(address string) Config {
	return Config{
		Requests: []Request{{Method: "POST", Scheme: "http", Authority: address, VariesPath: true, VariesBody: true,
			Header: []Field{{Name: "x-number", Varies: true}, {Name: "accept", Value: "*/*"}}}},
		Streams: 16,
		Content: true,
		Fields:  []string{"x-number", "x-sum"},
	}
}

// A run sends the numbers from 0 to count and checks what comes back, on as many
// connections as it takes.
type run struct {
	*link
	count   int
	retries []int // refused, to be sent again
	next    int
	under   map[uint32]*underWay
	done    map[int]bool
	refused int
	away    bool
}

type underWay struct {
	number  int
	content strings.Builder
	fields  map[int]string
}

func (r *run) begin() {
	for r.c.Free() > 0 {
		number := r.next
		switch {
		case len(r.retries) > 0:
			number = r.retries[len(r.retries)-1]
			r.retries = r.retries[:len(r.retries)-1]
		case r.next < r.count:
			r.next++
		default:
			return
		}
		id := uint32(0)
		for r.under[id] != nil {
			id++
		}
		text := strconv.Itoa(number)
		begin(r.t, r.c, id, 0, "/"+text, text, bodyOf(number))
		r.under[id] = &underWay{number: number, fields: map[int]string{}}
	}
}

func (r *run) event(e wire.MuxEvent) {
	if e.Kind == wire.MuxGoAway {
		r.away = true
		return
	}
	u := r.under[e.ID]
	if u == nil {
		r.t.Fatalf("event of no exchange: %+v", e)
	}
	u.content.Write(e.Data)
	for _, f := range r.c.Fields() {
		u.fields[f.Name] = string(f.Value)
	}
	switch e.Kind {
	case wire.MuxHead, wire.MuxData:
		return
	case wire.MuxRefused:
		r.refused++
		r.retries = append(r.retries, u.number)
	case wire.MuxEnded:
		sum, body, status := 0, bodyOf(u.number), 200
		for _, b := range []byte(body) {
			sum += int(b)
		}
		if u.number%5 == 0 {
			status = 202
		}
		if u.content.String() != body || u.fields[0] != strconv.Itoa(u.number) || u.fields[1] != strconv.Itoa(sum) || int(e.Status) != status || e.Err != nil || !e.Trailers {
			r.t.Fatalf("exchange %d: %+v, %d bytes, fields %v; want %d bytes, status %d, sum %d", u.number, e, u.content.Len(), u.fields, len(body), status, sum)
		}
		if r.done[u.number] {
			r.t.Fatalf("exchange %d twice", u.number)
		}
		r.done[u.number] = true
	default:
		r.t.Fatalf("exchange %d: %+v", u.number, e)
	}
	delete(r.under, e.ID)
}

func (r *run) all() {
	r.t.Helper()
	r.under, r.done = map[uint32]*underWay{}, map[int]bool{}
	for len(r.done) < r.count {
		r.begin()
		if !r.Turn(r.event) || r.away && len(r.under) == 0 {
			r.away = false
			r.Redial()
		}
	}
	if len(r.under) > 0 {
		r.t.Errorf("%d exchanges are still under way", len(r.under))
	}
}

func TestServer(t *testing.T) {
	const count = 400
	for _, tt := range []struct {
		name   string
		server http.HTTP2Config
		change func(*Config)
	}{
		{"as usual", http.HTTP2Config{}, func(*Config) {}},
		{"tiny windows here", http.HTTP2Config{}, func(c *Config) {
			c.Settings = DefaultSettings()
			c.Settings.StreamWindow, c.Settings.ConnectionWindow = 500, 65535
		}},
		{"tiny windows there", http.HTTP2Config{MaxReceiveBufferPerStream: 1000, MaxReceiveBufferPerConnection: 65535}, func(*Config) {}},
		{"no table here", http.HTTP2Config{}, func(c *Config) {
			c.Settings = DefaultSettings()
			c.Settings.HeaderTableSize = 0
		}},
		{"no table there", http.HTTP2Config{MaxDecoderHeaderTableSize: 10}, func(*Config) {}},
		{"large frames", http.HTTP2Config{MaxReadFrameSize: 1 << 20}, func(c *Config) {
			c.Settings = DefaultSettings()
			c.Settings.MaxFrameSize = 1 << 20
		}},
		{"optimistic beyond what the server allows", http.HTTP2Config{MaxConcurrentStreams: 3}, func(c *Config) { c.Optimistic = true }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			address := serve(t, tt.server, echo)
			config := echoConfig(address)
			tt.change(&config)
			r := run{link: connect(t, config, address), count: count}
			if testing.Short() {
				r.count /= 8
			}
			r.all()
			if config.Optimistic != (r.refused > 0) {
				t.Errorf("%d exchanges were refused", r.refused)
			}
		})
	}
}

// A server that says GOAWAY again and again: what it did not process is sent again, and
// each exchange is processed once.
func TestServerGoesAway(t *testing.T) {
	var lock sync.Mutex
	processed := map[string]int{}
	address := serve(t, http.HTTP2Config{}, func(w http.ResponseWriter, r *http.Request) {
		lock.Lock()
		processed[r.URL.Path]++
		away := len(processed)%50 == 0
		lock.Unlock()
		if away {
			w.Header().Set("Connection", "close")
		}
		echo(w, r)
	})
	r := run{link: connect(t, echoConfig(address), address), count: 400}
	r.all()
	lock.Lock()
	defer lock.Unlock()
	for path, n := range processed {
		if n != 1 {
			t.Errorf("%s was processed %d times", path, n)
		}
	}
	if len(processed) != r.count {
		t.Errorf("%d exchanges were processed, want %d", len(processed), r.count)
	}
}

// What becomes of exchanges that a real server ends in its own ways.
func TestServerEndsOtherwise(t *testing.T) {
	address := serve(t, http.HTTP2Config{}, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/early": // without reading the body
			w.WriteHeader(http.StatusForbidden)
		case "/abort":
			panic(http.ErrAbortHandler)
		case "/hints":
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusNoContent)
		}
	})
	config := echoConfig(address)
	config.Requests = []Request{{Method: "POST", Scheme: "http", Authority: address, VariesPath: true, VariesBody: true}}
	k := connect(t, config, address)
	body := strings.Repeat("x", 3<<20) // beyond every window
	for k.c.Free() == 0 {
		k.Turn(func(e wire.MuxEvent) { t.Fatalf("%+v", e) })
	}
	begin(t, k.c, 0, 0, "/early", body)
	begin(t, k.c, 1, 0, "/abort", "")
	begin(t, k.c, 2, 0, "/hints", "")
	got := map[uint32]wire.MuxEvent{}
	for len(got) < 3 {
		k.Turn(func(e wire.MuxEvent) {
			if e.Kind != wire.MuxHead {
				got[e.ID] = e
			}
		})
	}
	if e := got[0]; e.Kind != wire.MuxEnded || e.Status != 403 || e.Err == nil || e.Err.Kind != wire.Status {
		t.Errorf("early: %+v", e)
	}
	if e := got[1]; e.Kind != wire.MuxFailed || e.Err != ResetError(InternalError) {
		t.Errorf("abort: %+v", e)
	}
	if e := got[2]; e.Kind != wire.MuxEnded || e.Status != 204 || e.Err != nil {
		t.Errorf("hints: %+v", e)
	}
}

// Both sides talk at once on one stream, as gRPC does.
func TestServerBitByBit(t *testing.T) {
	address := serve(t, http.HTTP2Config{}, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		f := w.(http.Flusher)
		f.Flush()
		buf := make([]byte, 100)
		for {
			n, err := r.Body.Read(buf)
			if err != nil {
				w.Header().Set(http.TrailerPrefix+"Status", "done")
				return
			}
			if _, err := w.Write(buf[:n]); err != nil {
				return
			}
			f.Flush()
		}
	})
	config := echoConfig(address)
	config.Requests = []Request{{Method: "POST", Scheme: "http", Authority: address, Path: "/", BitByBit: true, Header: []Field{{Name: "te", Value: "trailers"}}}}
	config.Fields = []string{"status"}
	k := connect(t, config, address)
	for k.c.Free() == 0 {
		k.Turn(func(e wire.MuxEvent) { t.Fatalf("%+v", e) })
	}
	begin(t, k.c, 7, 0)
	var content strings.Builder
	headed, ended := false, false
	event := func(e wire.MuxEvent) {
		content.Write(e.Data)
		headed = headed || e.Kind == wire.MuxHead
		if e.Kind == wire.MuxEnded {
			ended = true
			if f := k.c.Fields(); len(f) != 1 || string(f[0].Value) != "done" || !e.Trailers {
				t.Errorf("trailers %v", f)
			}
		}
	}
	for !headed {
		k.Turn(event)
	}
	for i := range 20 {
		message := fmt.Sprintf("message %d", i)
		content.Reset()
		if n, err := k.c.Send(7, []byte(message), false); n != len(message) || err != nil {
			t.Fatal(n, err)
		}
		for content.Len() < len(message) {
			k.Turn(event)
		}
		if content.String() != message {
			t.Fatalf("%q came back for %q", content.String(), message)
		}
	}
	if _, err := k.c.Send(7, nil, true); err != nil {
		t.Fatal(err)
	}
	for !ended {
		k.Turn(event)
	}
}
