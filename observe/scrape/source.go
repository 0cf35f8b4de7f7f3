package scrape

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"dyno/host/loopback"
	"dyno/internal/contentcoding"
)

// MaxBytes bounds an answer.
const MaxBytes = 16 << 20

// accept asks for the text format, which is the cheapest to make, then for JSON, and
// accepts anything.
const accept = "text/plain;version=0.0.4, application/json, */*;q=0.1"

// A Source fetches one page again and again, on one connection. It uses no redirects, proxies or
// compression, which would cost the answering program CPU time. It is used by one goroutine at a time.
type Source struct {
	url    string
	client *http.Client
}

// NewSource makes a source of an http or https URL. Unless remote is allowed, it
// talks to loopback addresses only, whatever a name resolves to.
func NewSource(address string, remote bool) (*Source, error) {
	if err := checkURL(address); err != nil {
		return nil, err
	}
	return &Source{
		url: address,
		client: &http.Client{
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			Transport:     &http.Transport{DialContext: loopback.Dialer(remote).DialContext, DisableCompression: true, MaxIdleConnsPerHost: 1},
		},
	}, nil
}

func checkURL(address string) error {
	u, err := url.Parse(address)
	if err == nil && (u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "") {
		err = errors.New("want http://host:port/path")
	}
	if err != nil {
		return fmt.Errorf("%q: %w", address, err)
	}
	return nil
}

// Get returns the page.
func (s *Source) Get(ctx context.Context) ([]byte, error) {
	return s.get(ctx, MaxBytes, false)
}

// GetStart returns the first bytes of the page, up to a limit. If the page is longer, the
// rest is dropped together with the connection.
func (s *Source) GetStart(ctx context.Context, limit int) ([]byte, error) {
	return s.get(ctx, limit, true)
}

func (s *Source) get(ctx context.Context, limit int, cut bool) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", accept)
	answer, err := s.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }() // only read
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: status %d", s.url, answer.StatusCode)
	}
	body, err := contentcoding.Body(answer, int64(limit)+1)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.url, err)
	}
	text, err := io.ReadAll(io.LimitReader(body, int64(limit)+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.url, err)
	}
	if len(text) > limit {
		if !cut {
			return nil, fmt.Errorf("%s: more than %d bytes", s.url, limit)
		}
		text = text[:limit]
	}
	return text, nil
}

// URL returns the page's address.
func (s *Source) URL() string { return s.url }

// Close closes the connection.
func (s *Source) Close() { s.client.CloseIdleConnections() }
