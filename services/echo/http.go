package echo

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/gorilla/websocket"

	"dyno/services/internal/serve"
)

// httpEcho is the HTTP/1.1 end point on net/http, and that of WebSocket on all its paths.
type httpEcho struct {
	server   *http.Server
	listener net.Listener
	sockets  *webSockets
}

// greeting is the answer to GET / without ?size=.
const greeting = "dyno echo\n"

func newHTTP(s *Server) (*httpEcho, error) {
	l, err := serve.Listen(context.Background(), s.cfg.HTTP, nil)
	if err != nil {
		return nil, err
	}
	h := &handler{metrics: s.metrics, limit: s.cfg.MaxBodyBytes, sockets: newWebSockets(s.messages, s.cfg.MaxBodyBytes)}
	return &httpEcho{listener: l, sockets: h.sockets, server: &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       5 * time.Minute,
		ErrorLog:          serve.ErrorLog(s.log),
	}}, nil
}

// drain lets current requests finish, and closes WebSocket connections. It does not know how many requests it cuts, and
// reports one if there were any.
func (h *httpEcho) drain(ctx context.Context) int {
	h.sockets.close()
	if err := h.server.Shutdown(ctx); err != nil {
		_ = h.server.Close()
		return 1
	}
	return 0
}

type handler struct {
	metrics metrics
	limit   int64 // bytes of a body
	sockets *webSockets
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if websocket.IsWebSocketUpgrade(r) {
		h.sockets.serve(w, r)
		return
	}
	status := http.StatusInternalServerError // of one that panics
	defer func() { h.metrics.requests.WithLabelValues(strconv.Itoa(status)).Inc() }()
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		status = h.get(w, r)
	case http.MethodPost, http.MethodPut, http.MethodPatch:
		status = h.echo(w, r)
	default:
		w.Header().Set("Allow", "GET, HEAD, POST, PUT, PATCH")
		status = http.StatusMethodNotAllowed
		http.Error(w, "use GET, or POST a body to get it back", status)
	}
}

// get answers a small fixed body, or ?size= bytes of a repeated pattern.
func (h *handler) get(w http.ResponseWriter, r *http.Request) int {
	size := int64(len(greeting))
	if text := r.URL.Query().Get("size"); text != "" {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 || n > h.limit {
			http.Error(w, "size: must be a number of bytes from 0 to "+strconv.FormatInt(h.limit, 10), http.StatusBadRequest)
			return http.StatusBadRequest
		}
		size = n
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
	if r.Method == http.MethodGet {
		_, _ = io.CopyN(w, new(repeated), size) // the client may have gone
	}
	return http.StatusOK
}

// repeated reads as the greeting repeated without end.
type repeated struct{ at int }

func (p *repeated) Read(b []byte) (int, error) {
	n := 0
	for n < len(b) {
		m := copy(b[n:], greeting[p.at:])
		p.at = (p.at + m) % len(greeting)
		n += m
	}
	return n, nil
}

// echo answers with the request's body. It reads the whole body before it begins to
// answer: a client of HTTP/1.1 may finish writing before it reads.
func (h *handler) echo(w http.ResponseWriter, r *http.Request) int {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, h.limit))
	if err != nil {
		status := http.StatusBadRequest
		var long *http.MaxBytesError
		if errors.As(err, &long) {
			status = http.StatusRequestEntityTooLarge
		}
		http.Error(w, err.Error(), status)
		return status
	}
	if t := r.Header.Get("Content-Type"); t != "" {
		w.Header().Set("Content-Type", t)
	} else {
		w.Header().Set("Content-Type", "application/octet-stream")
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body) // the client may have gone
	return http.StatusOK
}
