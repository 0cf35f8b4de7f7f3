package ui

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"time"

	"dyno/internal/texts"
	"dyno/results/rundir"
)

//go:embed assets
var assets embed.FS

// The bounds of requests.
const (
	headerTimeout = 5 * time.Second
	bodyTimeout   = 10 * time.Second
	fleetTimeout  = 10 * time.Second // for what a control plane knows
	answerTimeout = time.Minute      // for an answer that is not a stream, from the request on
	maxHeader     = 16 << 10
	maxBody       = 64 << 10
	// heavy is how many requests that read whole runs are answered at the same time;
	// others wait.
	heavy = 2
)

// A Server shows runs. Its methods may be called from any goroutine, Listen and Serve
// once each.
type Server struct {
	cfg     Config
	log     *slog.Logger
	guard   *guard
	runs    *index
	library *library
	stage   *stage
	heavy   chan struct{} // one for each such request that is being answered

	listener net.Listener
	server   *http.Server
}

// New checks cfg, opens the folders and returns a server that is not listening yet. The
// error lists every fault of cfg, or says which folder cannot be opened. Serve calls
// Close at its end; if Serve is not called, call Close.
func New(cfg Config) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Server{cfg: cfg, log: cfg.Logger, guard: newGuard(), library: &library{dir: cfg.Experiments}, heavy: make(chan struct{}, heavy)}
	root, err := openRoot("runs", cfg.Runs)
	if err != nil {
		return nil, err
	}
	s.runs = newIndex(root, s.log)
	if cfg.Experiments != "" {
		s.library.root, err = openRoot("experiments", cfg.Experiments)
	}
	if err == nil {
		s.stage, err = newStage(cfg.Runner, s.log, s.runs.stale)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	handler, err := s.routes()
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.server = &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	return s, nil
}

// Listen opens the listener; then URL is known.
func (s *Server) Listen() error {
	at, err := parseListen(s.cfg.Listen)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	l, err := net.Listen("tcp", at.String())
	if err != nil {
		return err
	}
	bound, err := netip.ParseAddrPort(l.Addr().String())
	if err != nil || !bound.Addr().IsLoopback() {
		return errors.Join(fmt.Errorf("listen: %s is not a loopback address", l.Addr()), err, l.Close())
	}
	s.listener = l
	s.guard.listening(bound)
	return nil
}

// URL is the page's URL including the token, so only the user should see it. "" before
// Listen.
func (s *Server) URL() string {
	if s.listener == nil {
		return ""
	}
	return "http://" + s.listener.Addr().String() + "/#token=" + string(s.guard.token)
}

// Serve answers until ctx ends. It calls Listen unless that has been done. At the end it
// ends the current run and calls Close.
func (s *Server) Serve(ctx context.Context) error {
	if s.listener == nil {
		if err := s.Listen(); err != nil {
			return errors.Join(err, s.Close())
		}
	}
	ended := make(chan error, 1)
	go func() { ended <- s.server.Serve(s.listener) }()
	// The first scan takes a while if there are many runs.
	watching, endWatching := context.WithCancel(ctx)
	var watched sync.WaitGroup
	watched.Go(func() { s.watchOthers(watching) })
	var err error
	select {
	case err = <-ended:
	case <-ctx.Done():
	}
	endWatching()
	watched.Wait()
	// Clients that follow the run see how it ends.
	s.stage.close(s.cfg.StopTimeout)
	err = errors.Join(err, s.Close())
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// Close ends everything at once, and frees what New and Listen opened.
func (s *Server) Close() error {
	var errs []error
	if s.stage != nil {
		s.stage.close(0)
		errs = append(errs, s.stage.hub.Close())
	}
	if s.server != nil {
		errs = append(errs, s.server.Close())
	}
	if s.listener != nil {
		s.listener.Close()
	}
	s.runs.close()
	errs = append(errs, s.runs.root.Close())
	if s.library.root != nil {
		errs = append(errs, s.library.root.Close())
	}
	return errors.Join(errs...)
}

// routes are all paths. Those below /api require the token, except for reports, which
// require their key.
func (s *Server) routes() (http.Handler, error) {
	files, err := fs.Sub(assets, "assets")
	if err != nil {
		return nil, err
	}
	api := http.NewServeMux()
	api.HandleFunc("GET /api/runs", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("where") == "" {
			s.serveRuns(w, r)
			return
		}
		s.alone(s.serveRuns)(w, r) // it reads all that match otherwise
	})
	api.HandleFunc("POST /api/runs", s.serveStart)
	api.HandleFunc("GET /api/runs/{id}", s.alone(s.serveRun))
	api.HandleFunc("POST /api/runs/{id}/annotations", s.serveAnnotate)
	api.HandleFunc("POST /api/runs/{id}/stop", s.serveStop)
	api.HandleFunc("GET /api/diff", s.alone(s.serveDiff))
	api.HandleFunc("GET /api/history", s.alone(s.serveHistory))
	api.HandleFunc("GET /api/experiments", s.alone(s.serveExperiments))
	api.HandleFunc("GET /api/fleet", s.serveFleet)
	api.HandleFunc("GET /api/live", s.stage.serve)
	api.HandleFunc("/api/", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusNotFound, texts.NewError("refused.path"))
	})

	mux := http.NewServeMux()
	for _, name := range []string{"ui.js", "ui.css"} {
		mux.HandleFunc("GET /"+name, func(w http.ResponseWriter, r *http.Request) { http.ServeFileFS(w, r, files, name) })
	}
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) { http.ServeFileFS(w, r, files, "page.html") })
	mux.HandleFunc("GET /api/runs/{id}/report.html", s.serveReport)
	mux.HandleFunc("/api/", func(w http.ResponseWriter, r *http.Request) {
		if !s.guard.knows(r) {
			w.Header().Set("WWW-Authenticate", "Bearer")
			answer(w, http.StatusUnauthorized, texts.NewError("refused.token"))
			return
		}
		api.ServeHTTP(w, r)
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		headers(w.Header())
		if err := s.guard.refuses(r); err != nil {
			answer(w, http.StatusForbidden, err)
			return
		}
		if r.URL.Path != "/api/live" { // the hub sets deadlines of its own
			control := http.NewResponseController(w)
			_ = control.SetReadDeadline(time.Now().Add(bodyTimeout)) // the connection may be gone
			_ = control.SetWriteDeadline(time.Now().Add(answerTimeout))
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		mux.ServeHTTP(w, r)
	}), nil
}

// A refusal is an answer that is an error.
type refusal struct {
	Error  rundir.Message  `json:"error"`
	Hint   *rundir.Message `json:"hint,omitempty"` // verbatim, it is a command or the ID of a run
	Faults []Fault         `json:"faults,omitempty"`
}

// refuse makes a refusal of an error.
func refuse(err error) refusal { return refusal{Error: texts.Together(texts.Reasons(err)...)} }

func answer(w http.ResponseWriter, status int, err error) { reply(w, status, refuse(err)) }

// reply answers with JSON. The client may have gone.
func reply(w http.ResponseWriter, status int, value any) {
	b, err := json.Marshal(value)
	if err != nil {
		status, b = http.StatusInternalServerError, []byte(`{"error":{"kind":"verbatim","values":{"words":"the answer cannot be written as JSON"}}}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(b)
}

// inFolder turns an ID, which is a path below a folder, into a path of this process.
func inFolder(folder, id string) string { return filepath.Join(folder, filepath.FromSlash(id)) }

// gone reports whether an error means that a file does not exist.
func gone(err error) bool { return errors.Is(err, os.ErrNotExist) }
