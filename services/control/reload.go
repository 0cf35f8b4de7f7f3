package control

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"dyno/internal/secretfile"
	"dyno/services/control/access"
	"dyno/services/internal/serve"
)

// reloadPeriod is the pause between two looks for changed files.
const reloadPeriod = 10 * time.Second

// files holds the files that are read again when they change: the configuration, the principals, the certificate and
// the client CAs. So these change without a restart. If a file cannot be read, its last contents stay in force.
type files struct {
	cfg  Config
	log  *slog.Logger
	book *access.Book                    // nil without principals
	pair atomic.Pointer[tls.Certificate] // nil without a certificate
	cas  atomic.Pointer[x509.CertPool]   // nil without client CAs
	seen map[string]stamp                // the state in which each file was read; for one goroutine

	changed func(Config) // takes the fields that may change; set before the part runs

	asked chan chan error // by lookNow
	done  chan struct{}   // closed when the part ends
}

// A stamp changes with a file.
type stamp struct {
	at   time.Time
	size int64
}

// readFiles reads all of them.
func readFiles(c Config, log *slog.Logger) (*files, error) {
	f := &files{cfg: c, log: log, seen: map[string]stamp{}, asked: make(chan chan error), done: make(chan struct{})}
	for _, name := range []string{c.File, c.Principals, c.Certificate, c.Key, c.ClientCA} {
		if name != "" {
			f.differs(name) // before reading, so that a later change is noticed
		}
	}
	var err error
	if f.book, err = c.book(); err != nil {
		return nil, err
	}
	if c.Certificate != "" {
		if err := f.readPair(); err != nil {
			return nil, err
		}
	}
	return f, f.readCAs()
}

// differs reports whether a file has changed since the last look. It does for a file without a state, so that reading
// it gives the error.
func (f *files) differs(name string) bool {
	info, err := os.Stat(name)
	if err != nil {
		delete(f.seen, name)
		return true
	}
	now := stamp{info.ModTime(), info.Size()}
	before, ok := f.seen[name]
	f.seen[name] = now
	return !ok || !before.at.Equal(now.at) || before.size != now.size
}

func (f *files) readPair() error {
	pair, err := secretfile.LoadKeyPair(f.cfg.Certificate, f.cfg.Key)
	if err != nil {
		return fmt.Errorf("certificate: %w", err)
	}
	f.pair.Store(&pair)
	return nil
}

func (f *files) readCAs() error {
	pool, err := f.cfg.clientCAs()
	if err == nil {
		f.cas.Store(pool)
	}
	return err
}

// reconfigure reads the configuration again, and takes all of its changes or none.
func (f *files) reconfigure() error {
	next, err := f.cfg.Reread()
	if err != nil {
		return err
	}
	if f.book != nil && f.book.Certificates() && next.ClientCA == "" {
		return errors.New("tls_client_ca: is missing: there are principals with certificates")
	}
	before := f.cfg.ClientCA
	f.cfg.ClientCA = next.ClientCA
	if err := f.readCAs(); err != nil {
		f.cfg.ClientCA = before
		return err
	}
	f.changed(next)
	return nil
}

// look reads changed files again. The error lists those that could not be read, which are logged too.
func (f *files) look() error {
	var failed []error
	again := func(what string, read func() error, names ...string) {
		changed := false
		for _, name := range names {
			changed = f.differs(name) || changed
		}
		if !changed {
			return
		}
		if err := read(); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", what, err))
			f.log.Warn(what+" not read again: the last contents stay in force", "error", err)
			for _, name := range names {
				delete(f.seen, name) // the next look tries again
			}
			return
		}
		f.log.Info(what + " read again")
	}
	if f.cfg.File != "" {
		again("configuration", f.reconfigure, f.cfg.File)
	}
	if f.cfg.ClientCA != "" {
		again("client CA", f.readCAs, f.cfg.ClientCA)
	}
	if f.book != nil {
		again("principals", func() error {
			book, err := f.cfg.book()
			if err == nil {
				f.book.Replace(book)
			}
			return err
		}, f.cfg.Principals)
	}
	if f.cfg.Certificate != "" {
		again("certificate", f.readPair, f.cfg.Certificate, f.cfg.Key)
	}
	return errors.Join(failed...)
}

// lookNow makes the part look at once, and returns the error.
func (f *files) lookNow() error {
	answer := make(chan error, 1)
	select {
	case f.asked <- answer:
		return <-answer
	case <-f.done:
		return nil
	}
}

// part looks at the files while the server runs.
func (f *files) part() serve.Part {
	return serve.Part{
		Name: "files",
		Serve: func() error {
			ticker := time.NewTicker(reloadPeriod)
			defer ticker.Stop()
			for {
				select {
				case <-f.done:
					return nil
				case <-ticker.C:
					_ = f.look() // the error is logged
				case answer := <-f.asked:
					answer <- f.look()
				}
			}
		},
		Drain: func(context.Context) int { close(f.done); return 0 },
	}
}
