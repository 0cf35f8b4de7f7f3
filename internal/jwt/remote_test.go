package jwt

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// published returns a key as in a set, with changes.
func published(a Algorithm, id string, change map[string]any) map[string]any {
	text := base64.RawURLEncoding.EncodeToString
	j := map[string]any{"kid": id, "use": "sig", "alg": string(a)}
	switch k := pairs()[a].Public().(type) {
	case *rsa.PublicKey:
		j["kty"], j["n"], j["e"] = "RSA", text(k.N.Bytes()), text(big.NewInt(int64(k.E)).Bytes())
	case *ecdsa.PublicKey:
		point, err := k.Bytes()
		if err != nil {
			panic(err)
		}
		j["kty"], j["crv"], j["x"], j["y"] = "EC", "P-256", text(point[1:33]), text(point[33:])
	case ed25519.PublicKey:
		j["kty"], j["crv"], j["x"] = "OKP", "Ed25519", text(k)
	}
	for name, v := range change {
		j[name] = v
	}
	return j
}

func set(keys ...map[string]any) string {
	text, err := json.Marshal(map[string]any{"keys": keys})
	if err != nil {
		panic(err)
	}
	return string(text)
}

var asymmetric = []Algorithm{RS256, ES256, EdDSA}

func TestParseSet(t *testing.T) {
	keys, err := ParseSet([]byte(set(
		published(RS256, "r", nil), published(ES256, "e", map[string]any{"use": "", "key_ops": []string{"verify"}}), published(EdDSA, "d", nil),
		// Left out: for encryption, by another algorithm, of a kind that is not known.
		published(RS256, "x", map[string]any{"use": "enc"}), published(RS256, "y", map[string]any{"alg": "PS256"}),
		published(EdDSA, "z", map[string]any{"crv": "X25519"}), map[string]any{"kty": "new", "kid": "n"},
		published(ES256, "w", map[string]any{"key_ops": []string{"sign"}}),
	)), asymmetric)
	if err != nil {
		t.Fatal(err)
	}
	if len(keys) != 3 || keys[0].ID != "r" || keys[1].ID != "e" || keys[2].ID != "d" {
		t.Fatalf("%+v", keys)
	}
	for i, a := range asymmetric {
		source := Keys{keys[i]}
		v := newVerifier(t, func(c *Config) { c.Issuers[0].Keys, c.Issuers[0].Algorithms = source, asymmetric })
		if _, err := v.Verify(t.Context(), sign(t, a, private(a), nil, claims(nil))); err != nil {
			t.Errorf("%s: %v", a, err)
		}
	}
	if keys, err := ParseSet([]byte(set(published(RS256, "r", nil), published(ES256, "e", nil))), []Algorithm{ES256}); err != nil || len(keys) != 1 {
		t.Errorf("for ES256 only: %v, %v", keys, err)
	}
}

// poisoned are sets that could only be there to deceive.
func poisoned() map[string]struct{ text, want string } {
	many := make([]map[string]any, maxKeys+1)
	for i := range many {
		many[i] = published(EdDSA, fmt.Sprint(i), nil)
	}
	number := func(bytes int, last byte) string {
		b := make([]byte, bytes)
		b[0], b[bytes-1] = 0x80, last
		return base64.RawURLEncoding.EncodeToString(b)
	}
	zero := strings.Repeat("A", 43)
	return map[string]struct{ text, want string }{
		"a secret":             {set(map[string]any{"kty": "oct", "k": "c2VjcmV0", "alg": "HS256", "kid": "r"}), "a secret"},
		"a secret in disguise": {set(published(RS256, "r", map[string]any{"k": "c2VjcmV0"})), "a secret"},
		"RSA for HS256":        {set(published(RS256, "r", map[string]any{"alg": "HS256"})), "for algorithm HS256"},
		"RSA for ES256":        {set(published(RS256, "r", map[string]any{"alg": "ES256"})), "for algorithm ES256"},
		"a private key":        {set(published(RS256, "r", map[string]any{"d": "AQAB"})), "a secret"},
		"two of one ID":        {set(published(RS256, "r", nil), published(ES256, "r", nil)), "two of this ID"},
		"weak":                 {set(published(RS256, "r", map[string]any{"n": number(128, 1)})), "1024 bits"},
		"enormous":             {set(published(RS256, "r", map[string]any{"n": number(2048, 1)})), "16384 bits"},
		"even":                 {set(published(RS256, "r", map[string]any{"n": number(256, 2)})), "must be odd"},
		"exponent 1":           {set(published(RS256, "r", map[string]any{"e": "AQ"})), "out of range"},
		"exponent is large":    {set(published(RS256, "r", map[string]any{"e": "AQAAAAE"})), "out of range"},
		"exponent of 9 bytes":  {set(published(RS256, "r", map[string]any{"e": base64.RawURLEncoding.EncodeToString([]byte{1, 0, 0, 0, 0, 0, 1, 0, 1})})), "E in marshal"},
		"no modulus":           {set(published(RS256, "r", map[string]any{"n": ""})), `requires parameters "n"`},
		"not on the curve":     {set(published(ES256, "r", map[string]any{"y": zero})), "not on the specified curve"},
		"infinity":             {set(published(ES256, "r", map[string]any{"x": zero, "y": zero})), "not on the specified curve"},
		"short point":          {set(published(ES256, "r", map[string]any{"x": "AAAA"})), "not on the specified curve"},
		"padded":               {set(published(EdDSA, "r", map[string]any{"x": published(EdDSA, "r", nil)["x"].(string) + "="})), "illegal base64"},
		"short Edwards":        {set(published(EdDSA, "r", map[string]any{"x": "AAAA"})), "32 bytes"},
		"long ID":              {set(published(EdDSA, strings.Repeat("x", 129), nil)), "128 at most"},
		"many keys":            {set(many...), "65 keys"},
		"many bytes":           {set(published(EdDSA, "r", map[string]any{"x5c": strings.Repeat("x", maxSetBytes)})), "65536 at most"},
		"empty":                {set(), "no keys"},
		"no JSON":              {"<html>", "invalid character"},
	}
}

func TestPoisonedSets(t *testing.T) {
	for name, c := range poisoned() {
		if keys, err := ParseSet([]byte(c.text), asymmetric); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, %v: want %q", name, keys, err, c.want)
		}
	}
}

// A publisher has a set at an address, without a network.
type publisher struct {
	mu    sync.Mutex // guards what follows
	text  string
	asked int
	slow  chan struct{} // holds up answers until it is closed; nil does not
}

func (p *publisher) publish(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text = text
}

func (p *publisher) times() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked
}

func (p *publisher) RoundTrip(r *http.Request) (*http.Response, error) {
	p.mu.Lock()
	p.asked++
	text, slow := p.text, p.slow
	p.mu.Unlock()
	if slow != nil {
		select {
		case <-slow:
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	status := http.StatusOK
	if text == "" {
		status = http.StatusBadGateway
	}
	return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(text)), Request: r}, nil
}

// remoteBy is a key set that a transport publishes.
func remoteBy(via http.RoundTripper) *Remote {
	return NewRemote(RemoteConfig{URL: "https://issuer.example/keys", Algorithms: asymmetric, Client: &http.Client{Transport: via}, Logger: slog.New(slog.DiscardHandler)})
}

func newRemote(t testing.TB, p *publisher) (*Remote, *Verifier) {
	t.Helper()
	r := remoteBy(p)
	return r, newVerifier(t, func(c *Config) { c.Issuers[0].Keys, c.Issuers[0].Algorithms = r, asymmetric })
}

// TestRotation: a new key is fetched when it is first seen. Tokens of a removed key are refused after
// the next reading, remembered or not.
func TestRotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &publisher{text: set(published(RS256, "1", nil))}
		r, v := newRemote(t, p)
		check := func(a Algorithm, id string, want error) {
			t.Helper()
			_, err := v.Verify(t.Context(), sign(t, a, private(a), map[string]any{"kid": id}, claims(nil)))
			if !errors.Is(err, want) {
				t.Errorf("key %s: %v, want %v", id, err, want)
			}
		}
		check(RS256, "1", nil)
		check(RS256, "1", nil)
		if p.times() != 1 {
			t.Errorf("asked %d times", p.times())
		}
		p.publish(set(published(RS256, "1", nil), published(ES256, "2", nil)))
		check(ES256, "2", ErrKey) // too soon after the last reading
		time.Sleep(retryPause)
		check(ES256, "2", nil)
		check(RS256, "1", nil)
		p.publish(set(published(ES256, "2", nil)))
		time.Sleep(refreshAfter + time.Second)
		check(ES256, "2", nil) // reads it meanwhile
		r.Wait()
		check(RS256, "1", ErrKey)
		// Nothing good can be had: the last good set stays, but not without end.
		for _, bad := range []string{"", "<html>", set(published(RS256, "2", map[string]any{"alg": "HS256"}))} {
			p.publish(bad)
			time.Sleep(refreshAfter + time.Second)
			check(ES256, "2", nil)
			r.Wait()
			check(ES256, "2", nil)
		}
		time.Sleep(staleAfter)
		check(ES256, "2", ErrKey)
		p.publish(set(published(ES256, "2", nil)))
		time.Sleep(retryPause)
		check(ES256, "2", nil)
	})
}

// TestRemovedKey: a removed key stops being good as soon as a reading finds out, even if no other token
// triggers one.
func TestRemovedKey(t *testing.T) {
	for _, after := range []time.Duration{refreshAfter + time.Second, 3 * refreshAfter} {
		synctest.Test(t, func(t *testing.T) {
			p := &publisher{text: set(published(RS256, "1", nil))}
			r, v := newRemote(t, p)
			token := sign(t, RS256, private(RS256), map[string]any{"kid": "1"}, claims(map[string]any{"exp": time.Now().Add(50 * time.Minute).Unix()}))
			for range 3 { // from the second time on it is remembered
				if _, err := v.Verify(t.Context(), token); err != nil {
					t.Fatal(err)
				}
			}
			p.publish(set(published(ES256, "2", nil)))
			time.Sleep(after)
			_, _ = v.Verify(t.Context(), token) // reads the set
			r.Wait()
			if _, err := v.Verify(t.Context(), token); !errors.Is(err, ErrKey) {
				t.Errorf("after %v: %v", after, err)
			}
			// One that is not remembered is not taken in the first place, long after the last reading.
			p.publish(set(published(RS256, "1", nil)))
			time.Sleep(after)
			other := sign(t, ES256, private(ES256), map[string]any{"kid": "2"}, claims(nil))
			if _, err := v.Verify(t.Context(), other); after > 2*refreshAfter && !errors.Is(err, ErrKey) {
				t.Errorf("new, after %v: %v", after, err)
			}
			r.Wait()
		})
	}
}

// TestStuckIssuer: while the set cannot be read, only the first waits to find that out.
func TestStuckIssuer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &publisher{text: set(published(RS256, "1", nil))}
		r, _ := newRemote(t, p)
		if keys := r.Find(t.Context(), "1", RS256); len(keys) != 1 {
			t.Fatal(keys)
		}
		p.mu.Lock()
		p.slow = make(chan struct{})
		p.mu.Unlock()
		time.Sleep(3 * refreshAfter)
		for i := range 3 {
			began := time.Now()
			keys := r.Find(t.Context(), "1", RS256)
			if waited := time.Since(began); len(keys) != 1 || (waited > 0) != (i == 0) || waited > fetchTimeout {
				t.Errorf("%d: %d keys after %v", i, len(keys), waited)
			}
			time.Sleep(retryPause)
		}
		r.Wait()
	})
}

// TestUnknownKeys: requests for unknown keys trigger one reading per pause, however many they are and
// whatever they name. Nothing of them is kept.
func TestUnknownKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &publisher{text: set(published(RS256, "1", nil)), slow: make(chan struct{})}
		r, _ := newRemote(t, p)
		var asking sync.WaitGroup
		for i := range 1000 {
			asking.Go(func() { r.Find(t.Context(), fmt.Sprint("unknown ", i), RS256) })
		}
		synctest.Wait()
		close(p.slow)
		asking.Wait()
		if p.times() != 1 {
			t.Errorf("asked %d times at once", p.times())
		}
		for i := range 1000 {
			r.Find(t.Context(), fmt.Sprint("unknown ", i), RS256)
			time.Sleep(time.Second)
		}
		if n := p.times(); n < 30 || n > 36 {
			t.Errorf("asked %d times in 1000 seconds, want about one per %v", n, retryPause)
		}
	})
}

// TestSlowKeys: who waits for keys goes when its context ends, and the reading ends by
// itself.
func TestSlowKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &publisher{slow: make(chan struct{})}
		r, _ := newRemote(t, p)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if keys := r.Find(ctx, "1", RS256); keys != nil || time.Since(began) != time.Second {
			t.Errorf("%v after %v", keys, time.Since(began))
		}
		r.Wait()
		if d := time.Since(began); d != fetchTimeout {
			t.Errorf("the reading ended after %v", d)
		}
	})
}

// endless is a key set that has no end.
type endless struct{ read int }

func (e *endless) Read(b []byte) (int, error) {
	e.read += len(b)
	for i := range b {
		b[i] = ' '
	}
	return len(b), nil
}

func (e *endless) Close() error { return nil }

func (e *endless) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: e, Request: r}, nil
}

// TestEndlessKeys: of a key set that never ends no more is read than one may have.
func TestEndlessKeys(t *testing.T) {
	e := &endless{}
	r := remoteBy(e)
	if keys := r.Find(t.Context(), "1", RS256); keys != nil {
		t.Errorf("found %v", keys)
	}
	r.Wait()
	if e.read > maxSetBytes+1 {
		t.Errorf("%d bytes were read", e.read)
	}
}

func FuzzParseSet(f *testing.F) {
	f.Add([]byte(set(published(RS256, "r", nil), published(ES256, "e", nil), published(EdDSA, "d", nil))))
	for _, c := range poisoned() {
		if len(c.text) < 4096 {
			f.Add([]byte(c.text))
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		keys, err := ParseSet(text, asymmetric)
		if err != nil {
			return
		}
		for _, k := range keys {
			if _, ok := k.Material.([]byte); ok || k.Algorithm == HS256 || k.check() != nil {
				t.Errorf("a published secret: %+v", k)
			}
		}
	})
}
