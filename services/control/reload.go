package control

import (
	"errors"

	"dyno/services/control/access"
	"dyno/services/internal/serve"
)

// files holds what is read again when it changes: the configuration, the principals, the certificate and the client
// CAs. So these change without a restart.
type files struct {
	cfg          Config
	book         *access.Book // nil without principals
	certificates *serve.Certificates

	changed func(Config) // takes the fields that may change; set before the server runs
}

// readFiles reads all of them, and has them read again.
func readFiles(c Config, again *serve.Files) (*files, error) {
	f := &files{cfg: c}
	if c.File != "" {
		again.Add("configuration", f.reconfigure, &c.File)
	}
	again.Add("principals", f.readBook, &c.Principals)
	var err error
	if f.book, err = c.book(); err != nil {
		return nil, err
	}
	f.certificates, err = again.Certificates(&f.cfg.TLS, &f.cfg.ClientCA)
	return f, err
}

func (f *files) readBook() error {
	book, err := f.cfg.book()
	if err == nil {
		f.book.Replace(book)
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
	if err := f.certificates.ReadCAs(); err != nil {
		f.cfg.ClientCA = before
		return err
	}
	f.changed(next)
	return nil
}
