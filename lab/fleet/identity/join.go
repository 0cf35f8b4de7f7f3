package identity

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"dyno/internal/rate"
)

const joinPath = "/v1/join"

// The bounds of joining.
const (
	maxBody     = 16 << 10         // bytes of a request, and of an answer
	joinTimeout = 30 * time.Second // of the whole exchange
	// The limits on an address's requests, per second and at once, and the number of remembered addresses.
	requestRate  = 50
	requestBurst = 1000
	maxAddresses = 1000
)

// Trust knows the revocations. *Member implements it.
type Trust interface {
	// Admits refuses a revoked certificate with ErrRevoked. Any other error says why revocations are unknown now.
	Admits(*x509.Certificate) error
	// RevokedUntil returns the end of a name's revocation; zero: it is not revoked.
	RevokedUntil(name string) time.Time
}

// joinRequest asks for a certificate: with a token, or over a connection with the certificate to renew.
type joinRequest struct {
	Token   []byte `json:"token,omitempty"` // its secret
	Request []byte `json:"request"`         // PKCS #10, DER; its subject's common name is the member's
}

type joinAnswer struct {
	Certificate []byte `json:"certificate"` // X.509, DER
}

// A refusal is an answer without a certificate.
type refusal struct {
	status int
	error
}

// Handler answers POST /v1/join: machines join, and members renew their certificates. Its server's TLS is a
// coordinator's Joining.
func (a *Authority) Handler(trust Trust, log *slog.Logger) http.Handler {
	began := time.Now()
	requests := rate.NewLimiter(requestRate, requestBurst, maxAddresses)
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+joinPath, func(w http.ResponseWriter, r *http.Request) {
		address, _, _ := net.SplitHostPort(r.RemoteAddr)
		if ok, after := requests.Allow(address, 0, 0, time.Since(began)); !ok {
			w.Header().Set("Retry-After", strconv.FormatInt(int64((after+time.Second-1)/time.Second), 10))
			http.Error(w, "this address makes too many requests", http.StatusTooManyRequests)
			return
		}
		peer, certificate, err := a.join(w, r, trust)
		if refused, ok := errors.AsType[refusal](err); ok {
			log.Warn("joining refused", "address", address, "error", err)
			http.Error(w, err.Error(), refused.status)
			return
		}
		if err != nil {
			log.Error("joining failed", "address", address, "error", err)
			http.Error(w, "the authority failed; its log says why", http.StatusInternalServerError)
			return
		}
		log.Info("member joined or renewed", "address", address, "name", peer.Name, "role", peer.Role)
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(joinAnswer{certificate}) // a client without the answer asks again
	})
	return mux
}

// join returns the certificate for a request. The token is used last, so that a faulty request does not consume a
// use.
func (a *Authority) join(w http.ResponseWriter, r *http.Request, trust Trust) (Peer, []byte, error) {
	if r.TLS == nil {
		return Peer{}, nil, refusal{http.StatusBadRequest, errors.New("join over TLS only")}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return Peer{}, nil, refusal{http.StatusRequestEntityTooLarge, err}
	}
	var asked joinRequest
	if err := json.Unmarshal(body, &asked); err != nil {
		return Peer{}, nil, refusal{http.StatusBadRequest, err}
	}
	name, key, err := parseRequest(asked.Request)
	if err != nil {
		return Peer{}, nil, refusal{http.StatusBadRequest, err}
	}
	peer := Peer{Name: name}
	switch {
	case len(asked.Token) > 0:
		peer.Role, err = a.use(asked.Token)
		if errors.Is(err, errUnknown) || errors.Is(err, errUsedUp) {
			err = refusal{http.StatusUnauthorized, err}
		}
		if err != nil {
			return Peer{}, nil, err
		}
	case len(r.TLS.PeerCertificates) > 0:
		member, err := verify(r.TLS.PeerCertificates, a.certificate)
		if err != nil {
			return Peer{}, nil, refusal{http.StatusUnauthorized, err}
		}
		if err := trust.Admits(r.TLS.PeerCertificates[0]); err != nil {
			if errors.Is(err, ErrRevoked) {
				err = refusal{http.StatusForbidden, err}
			}
			return Peer{}, nil, err
		}
		if member.Name != name {
			return Peer{}, nil, refusal{http.StatusForbidden, fmt.Errorf("%s asks for a certificate of %s", member.Name, name)}
		}
		peer = member
	default:
		return Peer{}, nil, refusal{http.StatusUnauthorized, errors.New("neither a token nor a certificate")}
	}
	// A machine that joins again must not count as revoked, whichever clock is ahead.
	until := trust.RevokedUntil(name)
	if time.Until(until) > skew {
		return Peer{}, nil, refusal{http.StatusForbidden, fmt.Errorf("%s: %w", name, ErrRevoked)}
	}
	certificate, err := a.sign(peer, key, until)
	return peer, certificate, err
}

// parseRequest returns the name and the key of a request. The signature shows that the client has the key.
func parseRequest(der []byte) (name string, key *ecdsa.PublicKey, err error) {
	request, err := x509.ParseCertificateRequest(der)
	if err != nil {
		return "", nil, err
	}
	key, ok := request.PublicKey.(*ecdsa.PublicKey)
	if !ok || key.Curve != elliptic.P256() {
		return "", nil, errors.New("the key is not ECDSA P-256")
	}
	name = request.Subject.CommonName
	return name, key, errors.Join(validateName(name), request.CheckSignature())
}

// Join gets a certificate for a name from the coordinator at an address, HOST:PORT. It sends nothing to
// a server that is not a coordinator of the token's authority.
func Join(ctx context.Context, address, token, name string) (*Member, error) {
	secret, key, err := parseToken(token)
	if err := errors.Join(err, validateName(name)); err != nil {
		return nil, err
	}
	var authority *x509.Certificate
	config := &tls.Config{
		MinVersion:         tls.VersionTLS13,
		InsecureSkipVerify: true, // crypto/tls knows no authority yet
		VerifyConnection: func(s tls.ConnectionState) error {
			authority = s.PeerCertificates[len(s.PeerCertificates)-1]
			if keyHash(authority) != key {
				return errors.New("its authority is not the token's: the token is of another fleet, or another server answers at this address")
			}
			return verifyCoordinator(s, authority)
		},
	}
	m, err := requestCertificate(ctx, nil, config, address, name, secret, func() *x509.Certificate { return authority })
	if err != nil {
		return nil, fmt.Errorf("join the fleet at %s: %w", address, err)
	}
	return m, nil
}

// verifyCoordinator refuses a server that is not a coordinator of an authority. Any name is accepted.
func verifyCoordinator(s tls.ConnectionState, authority *x509.Certificate) error {
	if err := authority.CheckSignatureFrom(authority); err != nil {
		return fmt.Errorf("its authority: %w", err)
	}
	peer, err := verify(s.PeerCertificates, authority)
	if err != nil {
		return err
	}
	return peer.mustBe(Coordinator)
}

type dialer func(ctx context.Context, network, address string) (net.Conn, error)

// requestCertificate gets a certificate for a new key. authority is known after the server is verified.
func requestCertificate(ctx context.Context, dial dialer, config *tls.Config, address, name string, secret []byte, authority func() *x509.Certificate) (*Member, error) {
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: name}}, key)
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(joinRequest{secret, request})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, joinTimeout)
	defer cancel()
	call, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+address+joinPath, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	call.Header.Set("Content-Type", "application/json")
	// A redirect is not followed: it is not a valid answer.
	response, err := (&http.Transport{TLSClientConfig: config, DialContext: dial, DisableKeepAlives: true}).RoundTrip(call)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxBody))
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", response.Status, strings.TrimSpace(string(text)))
	}
	var answer joinAnswer
	if err := json.Unmarshal(text, &answer); err != nil {
		return nil, fmt.Errorf("its answer: %w", err)
	}
	m, err := newMember(tls.Certificate{Certificate: [][]byte{answer.Certificate, authority().Raw}, PrivateKey: key})
	if err == nil && m.Peer().Name != name {
		err = fmt.Errorf("its certificate is for %s, not %s", m.Peer().Name, name)
	}
	return m, err
}
