package ui

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"mime"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"dyno/internal/texts"
	"dyno/judge/diff"
	"dyno/judge/history"
	"dyno/judge/verdict"
	"dyno/judge/verdict/expr"
	"dyno/lab/planfile"
	"dyno/results/archive"
	"dyno/results/mask"
	"dyno/results/rundir"
)

// The bounds of requests.
const (
	mostListed  = 500
	usualListed = 50
	mostWords   = 20
	mostHistory = 1000 // runs of an experiment, the latest
	mostChosen  = 8    // runs side by side, and metrics of them
	mostSet     = 50
	maxSetValue = 1000 // bytes
)

// number reads a number of a query, which may be missing.
func number(q url.Values, name string, otherwise, most int) (int, error) {
	text := q.Get(name)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > most {
		return 0, texts.NewError("refused.number", "name", name, "value", strconv.Quote(text), "most", strconv.Itoa(most))
	}
	return n, nil
}

// instant reads a day or a time of a query, which may be missing. A day means its
// beginning, in this machine's zone, or its end.
func instant(q url.Values, name string, end bool) (time.Time, error) {
	text := q.Get(name)
	if text == "" {
		return time.Time{}, nil
	}
	t, err := history.Instant(text, end)
	if err != nil {
		return time.Time{}, texts.NewError("refused.day", "name", name, "value", strconv.Quote(text))
	}
	return t, nil
}

func (s *Server) serveRuns(w http.ResponseWriter, r *http.Request) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		answer(w, http.StatusBadRequest, err)
		return
	}
	f := filter{words: strings.Fields(strings.ToLower(q.Get("query"))), experiment: q.Get("experiment"), state: State(q.Get("state"))}
	var errs []error
	if len(f.words) > mostWords {
		errs = append(errs, texts.NewError("refused.query", "n", strconv.Itoa(len(f.words)), "most", strconv.Itoa(mostWords)))
	}
	switch f.state {
	case "", Valid, Disturbed, Invalid, Incomplete, Broken, Running:
	default:
		errs = append(errs, texts.NewError("refused.state", "value", strconv.Quote(string(f.state))))
	}
	fault := func(err error) { errs = append(errs, err) }
	f.from, err = instant(q, "from", false)
	fault(err)
	f.to, err = instant(q, "to", true)
	fault(err)
	where := history.Where{Condition: q.Get("where")}
	if where.Condition != "" {
		f.where = func(id string) bool {
			run, about, err := readRun(s.runs.root, id)
			return err == nil && where.Matches(new(history.Of(id, run, about)))
		}
	}
	offset, err := number(q, "offset", 0, archive.MaxRuns)
	fault(err)
	limit, err := number(q, "limit", usualListed, mostListed)
	fault(err)
	if err := errors.Join(errs...); err != nil {
		answer(w, http.StatusBadRequest, err)
		return
	}
	list := s.runs.list(r.Context(), f, s.stage.running(), offset, limit)
	if err := where.Err(); err != nil {
		answer(w, http.StatusBadRequest, err)
		return
	}
	for i := range list.Runs {
		if run := &list.Runs[i]; s.cfg.Report != nil && run.State != Broken {
			run.Report = "/api/runs/" + url.PathEscape(run.ID) + "/report.html?key=" + s.guard.key(run.ID)
		}
	}
	reply(w, http.StatusOK, list)
}

// alone makes requests that take memory and time wait for each other. If a client leaves
// meanwhile, its request is not served.
func (s *Server) alone(serve http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case s.heavy <- struct{}{}:
			defer func() { <-s.heavy }()
			serve(w, r)
		case <-r.Context().Done():
		}
	}
}

// checkRun refuses IDs that do not belong to a run: no other path is ever opened.
func (s *Server) checkRun(w http.ResponseWriter, r *http.Request, id string) bool {
	if s.runs.has(r.Context(), id) {
		return true
	}
	answer(w, http.StatusNotFound, texts.NewError("refused.run", "run", strconv.Quote(id)))
	return false
}

// unread answers for a run that cannot be read.
func unread(w http.ResponseWriter, err error) {
	status := http.StatusUnprocessableEntity
	if gone(err) {
		status = http.StatusNotFound
	}
	if text := err.Error(); len(text) > mostText {
		err = errors.New(cut(text, mostText))
	}
	answer(w, status, err)
}

func (s *Server) serveRun(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	if !s.checkRun(w, r, id) {
		return
	}
	run, about, err := readRun(s.runs.root, id)
	if err != nil {
		unread(w, err)
		return
	}
	reply(w, http.StatusOK, struct {
		*rundir.Run
		Answer      any                    `json:"answer,omitempty"`
		Units       map[string]rundir.Unit `json:"units"` // of the figures in thresholds and claims, by their text
		Annotations archive.Annotations    `json:"annotations"`
		Baseline    string                 `json:"baseline,omitempty"` // another run, by its ID
	}{run, s.answer(run), expr.UnitsOf(run), about, s.runs.baseline(run.Name, id)})
}

// serveAnnotate replaces what people say about a run. The time of pinning is the server's.
func (s *Server) serveAnnotate(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	if !s.checkRun(w, r, id) {
		return
	}
	var edit struct {
		Tags   []string `json:"tags"`
		Note   string   `json:"note"`
		Pinned bool     `json:"pinned"`
	}
	if status, err := readBody(r, &edit); err != nil {
		answer(w, status, err)
		return
	}
	var kept archive.Annotations
	err := held(s.runs.root, id, func(dir string) error {
		return archive.Annotate(dir, func(about *archive.Annotations) {
			about.Tags, about.Note = edit.Tags, edit.Note
			switch {
			case !edit.Pinned:
				about.PinnedAt = time.Time{}
			case about.PinnedAt.IsZero():
				about.PinnedAt = time.Now().UTC()
			}
			kept = *about
		})
	})
	if err != nil {
		unread(w, err)
		return
	}
	s.runs.stale()
	reply(w, http.StatusOK, kept)
}

// answer returns the summary of a run; nil if there is no function for that.
func (s *Server) answer(run *rundir.Run) any {
	if s.cfg.Answer == nil {
		return nil
	}
	return s.cfg.Answer(run)
}

// serveReport makes the report again: others may have written the file in the folder.
func (s *Server) serveReport(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	if s.cfg.Report == nil {
		answer(w, http.StatusNotFound, texts.NewError("refused.reports"))
		return
	}
	if !s.guard.opens(r.URL.Query().Get("key"), id) && !s.guard.knows(r) {
		answer(w, http.StatusUnauthorized, texts.NewError("refused.link"))
		return
	}
	s.alone(s.writeReport)(w, r)
}

func (s *Server) writeReport(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	if !s.checkRun(w, r, id) {
		return
	}
	var page bytes.Buffer
	err := held(s.runs.root, id, func(dir string) error {
		folder, err := verdict.Open(dir)
		if err != nil {
			return err
		}
		boundFolder(folder)
		folder.Dir = inFolder(s.cfg.Runs, id)
		return s.cfg.Report(&page, folder)
	})
	if err != nil {
		unread(w, err)
		return
	}
	h := w.Header()
	h.Set("Content-Security-Policy", reportPolicy)
	h.Del("Cross-Origin-Opener-Policy") // a sandboxed page cannot have one
	h.Set("Content-Type", "text/html; charset=utf-8")
	_, _ = page.WriteTo(w) // the client may have gone
}

func (s *Server) serveDiff(w http.ResponseWriter, r *http.Request) {
	var runs [2]*rundir.Run
	for i, name := range []string{"a", "b"} {
		id := r.URL.Query().Get(name)
		if !s.checkRun(w, r, id) {
			return
		}
		run, _, err := readRun(s.runs.root, id)
		if err != nil {
			unread(w, err)
			return
		}
		runs[i] = run
	}
	d, err := diff.Runs(runs[0], runs[1])
	if err != nil {
		answer(w, http.StatusUnprocessableEntity, err)
		return
	}
	reply(w, http.StatusOK, d)
}

func (s *Server) serveHistory(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	query := history.Query{Name: q.Get("experiment"), Metrics: q["metric"], Variant: q.Get("variant")}
	ids, broken := q["run"], []string(nil)
	switch {
	case len(ids) > mostChosen || len(query.Metrics) > mostChosen:
		answer(w, http.StatusBadRequest, texts.NewError("refused.number", "name", "run, metric", "value", strconv.Itoa(max(len(ids), len(query.Metrics))), "most", strconv.Itoa(mostChosen)))
		return
	case len(ids) > 0:
		for _, id := range ids {
			if !s.checkRun(w, r, id) {
				return
			}
		}
	case query.Name == "":
		answer(w, http.StatusBadRequest, texts.NewError("refused.unsaid"))
		return
	default:
		ids, broken = s.runs.of(r.Context(), query.Name, mostHistory)
	}
	var runs []history.Run
	for _, id := range broken {
		runs = append(runs, history.Run{Dir: id, Problem: "broken"})
	}
	for _, id := range ids {
		if r.Context().Err() != nil {
			return
		}
		run, about, err := readRun(s.runs.root, id)
		if err != nil {
			runs = append(runs, history.Run{Dir: id, Problem: err.Error()})
			continue
		}
		runs = append(runs, history.Of(id, run, about))
	}
	slices.SortStableFunc(runs, func(a, b history.Run) int { return a.StartedAt.Compare(b.StartedAt) })
	h, err := history.Trace(runs, query)
	if err != nil {
		answer(w, http.StatusNotFound, err)
		return
	}
	reply(w, http.StatusOK, h)
}

func (s *Server) serveExperiments(w http.ResponseWriter, r *http.Request) {
	list, err := s.library.list()
	if err != nil {
		answer(w, http.StatusInternalServerError, err)
		return
	}
	reply(w, http.StatusOK, list)
}

func (s *Server) serveFleet(w http.ResponseWriter, r *http.Request) {
	if s.cfg.Fleet == nil {
		reply(w, http.StatusOK, map[string]bool{"named": false})
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), fleetTimeout)
	defer cancel()
	f, err := s.cfg.Fleet(ctx)
	if err != nil {
		answer(w, http.StatusBadGateway, err)
		return
	}
	reply(w, http.StatusOK, f)
}

// An Order asks for a run.
type Order struct {
	Experiment string            `json:"experiment"` // its ID
	Short      bool              `json:"short"`
	Set        map[string]string `json:"set"` // as for dyno run --set
}

// readBody reads a request's body, which must be JSON: a form on another site could not
// send that.
func readBody(r *http.Request, into any) (status int, err error) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return http.StatusUnsupportedMediaType, texts.NewError("refused.type")
	}
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		var long *http.MaxBytesError
		if errors.As(err, &long) {
			return http.StatusRequestEntityTooLarge, texts.NewError("refused.long", "most", strconv.FormatInt(long.Limit, 10))
		}
		return http.StatusBadRequest, texts.NewError("refused.body", "error", err.Error())
	}
	if d.More() {
		return http.StatusBadRequest, texts.NewError("refused.values")
	}
	return 0, nil
}

// readOrder reads and checks the order in a request.
func readOrder(r *http.Request) (Order, int, error) {
	var o Order
	if status, err := readBody(r, &o); err != nil {
		return o, status, err
	}
	if len(o.Set) > mostSet {
		return o, http.StatusBadRequest, texts.NewError("refused.sets", "n", strconv.Itoa(len(o.Set)), "most", strconv.Itoa(mostSet))
	}
	for name, value := range o.Set {
		forbidden := func(r rune) bool { return r < ' ' || r == 0x7f || r == '"' }
		if name == "" || strings.ContainsAny(name, "=,") || strings.ContainsFunc(name+value, forbidden) || len(name)+len(value) > maxSetValue {
			return o, http.StatusBadRequest, texts.NewError("refused.set", "name", strconv.Quote(name), "value", strconv.Quote(value), "most", strconv.Itoa(maxSetValue))
		}
	}
	return o, 0, nil
}

func (s *Server) serveStart(w http.ResponseWriter, r *http.Request) {
	o, status, err := readOrder(r)
	if err != nil {
		answer(w, status, err)
		return
	}
	if s.library.root == nil {
		r := refuse(texts.NewError("refused.folder"))
		r.Hint = new(texts.Verbatim("dyno ui --experiments DIR"))
		reply(w, http.StatusForbidden, r)
		return
	}
	list, err := s.library.list()
	if err != nil {
		answer(w, http.StatusInternalServerError, err)
		return
	}
	if !list.has(o.Experiment) {
		answer(w, http.StatusNotFound, texts.NewError("refused.experiment", "experiment", strconv.Quote(o.Experiment)))
		return
	}
	src, err := s.library.source(o.Experiment)
	if err != nil {
		answer(w, http.StatusUnprocessableEntity, err)
		return
	}
	e, err := planfile.Parse(o.Experiment, src, options(o.Short, o.Set))
	if err != nil {
		r := refuse(texts.NewError("refused.faults"))
		r.Faults = faultsOf(err)
		reply(w, http.StatusUnprocessableEntity, r)
		return
	}
	id, err := s.newID(e.Name)
	if err != nil {
		answer(w, http.StatusInternalServerError, err)
		return
	}
	shown := map[string]string{}
	for name, value := range o.Set {
		shown[name] = mask.Text(name, value)
	}
	err = s.stage.start(Live{ID: id, Name: e.Name, Experiment: o.Experiment, Short: o.Short, Set: shown},
		Launch{File: inFolder(s.library.dir, o.Experiment), Dir: inFolder(s.cfg.Runs, id), Short: o.Short, Set: o.Set})
	switch {
	case errors.Is(err, errBusy):
		r := refuse(err)
		r.Hint = new(texts.New("refused.ending"))
		if id := s.stage.running(); id != "" {
			r.Hint = new(texts.Verbatim(id))
		}
		reply(w, http.StatusConflict, r)
	case err != nil:
		answer(w, http.StatusInternalServerError, err)
	default:
		reply(w, http.StatusAccepted, struct {
			ID string `json:"id"`
		}{id})
	}
}

func (l *ExperimentList) has(id string) bool {
	return slices.ContainsFunc(l.Experiments, func(e Experiment) bool { return e.ID == id })
}

// newID names a run as dyno run does: by the experiment and the time. The name must be
// free.
func (s *Server) newID(name string) (string, error) {
	base := name + "-" + time.Now().Format("20060102-150405")
	for n := 1; n < 100; n++ {
		id := base
		if n > 1 {
			id += "-" + strconv.Itoa(n)
		}
		if _, err := s.runs.root.Lstat(filepath.Clean(id)); errors.Is(err, os.ErrNotExist) {
			return id, nil
		} else if err != nil {
			return "", err
		}
	}
	return "", texts.NewError("refused.names", "name", base)
}

func (s *Server) serveStop(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	switch err := s.stage.stop(id); {
	case errors.Is(err, errIdle):
		answer(w, http.StatusConflict, err)
	case err != nil:
		answer(w, http.StatusInternalServerError, err)
	default:
		reply(w, http.StatusAccepted, struct {
			ID string `json:"id"`
		}{id})
	}
}
