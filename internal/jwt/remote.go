package jwt

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"
)

// RemoteConfig says where a key set is published.
type RemoteConfig struct {
	URL        string
	Algorithms []Algorithm  // that the keys may be for
	Client     *http.Client // must follow no redirects, and reach only what it may
	Logger     *slog.Logger
}

// Times of a Remote. A missing key triggers a reading at once, but no sooner than retryPause after the
// last one.
const (
	refreshAfter = 10 * time.Minute // the set is read again
	retryPause   = 30 * time.Second
	staleAfter   = 24 * time.Hour // the last good set is no longer used
	fetchTimeout = 5 * time.Second
)

// A Remote is a published key set that is read again as keys are rotated. A set that
// cannot be read, or could only be there to deceive, changes nothing. However many
// unknown keys are asked for, it holds one set and asks once per pause. Its methods may
// be called from any goroutine.
type Remote struct {
	cfg RemoteConfig
	log *slog.Logger

	mu         sync.Mutex // guards what follows
	keys       Keys
	generation uint64
	read       time.Time     // when keys was read; zero before that
	tried      time.Time     // when it was last tried; zero before that
	failed     bool          // the last try
	under      chan struct{} // closed when the reading under way ends; nil when none is
}

// NewRemote returns a key set that has not been read yet.
func NewRemote(c RemoteConfig) *Remote {
	return &Remote{cfg: c, log: c.Logger.With("keys", c.URL)}
}

// Generation changes whenever the keys do, and when they have become too old. It reads the set if that
// is due: a token that is remembered asks for nothing else.
func (r *Remote) Generation() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.expire()
	if len(r.keys) > 0 && time.Since(r.read) > refreshAfter {
		r.start()
	}
	return r.generation
}

// start starts reading the set, unless it is being read or was tried a moment ago. The caller holds mu.
func (r *Remote) start() {
	if r.under != nil || !r.tried.IsZero() && time.Since(r.tried) < retryPause {
		return
	}
	r.under = make(chan struct{})
	r.tried = time.Now()
	go r.fetch(r.under) // ends by its own timeout; who asked may go before
}

// expire removes keys that have become too old. The caller holds mu.
func (r *Remote) expire() {
	if len(r.keys) > 0 && time.Since(r.read) > staleAfter {
		r.keys = nil
		r.generation++
	}
}

// Find returns the keys that may have signed a token. It reads the set if that is due or the key is
// missing, and waits as long as ctx allows; with a key that has been known for a short time, it does
// not wait. If the set cannot be read, the last one is good until it is too old. Callers do not wait
// for the next try.
func (r *Remote) Find(ctx context.Context, id string, a Algorithm) Keys {
	for again := false; ; again = true {
		r.mu.Lock()
		r.expire()
		found := r.keys.Find(ctx, id, a)
		age := time.Since(r.read)
		if !again && (age > refreshAfter || len(found) == 0) {
			r.start()
		}
		under, failed := r.under, r.failed
		r.mu.Unlock()
		if again || under == nil || len(found) > 0 && (age <= 2*refreshAfter || failed) {
			return found
		}
		select {
		case <-under:
		case <-ctx.Done():
			return found
		}
	}
}

// fetch reads the set once.
func (r *Remote) fetch(done chan struct{}) {
	keys, err := r.get()
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		r.keys, r.read, r.failed = keys, time.Now(), false
		r.generation++
		r.log.Info("keys read", "keys", len(keys))
	} else {
		r.failed = true
		r.log.Warn("keys not read", "error", err)
	}
	r.under = nil
	close(done)
}

func (r *Remote) get() (Keys, error) {
	ctx, cancel := context.WithTimeout(context.Background(), fetchTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.cfg.URL, nil)
	if err != nil {
		return nil, err
	}
	resp, err := r.cfg.Client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status %d", resp.StatusCode)
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxSetBytes+1))
	if err != nil {
		return nil, err
	}
	return ParseSet(text, r.cfg.Algorithms)
}

// Wait returns when no reading is under way.
func (r *Remote) Wait() {
	for {
		r.mu.Lock()
		under := r.under
		r.mu.Unlock()
		if under == nil {
			return
		}
		<-under
	}
}

var (
	_ Source = Keys(nil)
	_ Source = (*Remote)(nil)
)
