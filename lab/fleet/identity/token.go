package identity

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"dyno/internal/filelock"
)

// The bounds of tokens.
const (
	MaxTokens    = 1000 // that have not expired, of an authority
	MaxUses      = 10_000
	MaxTokenLife = 365 * 24 * time.Hour
)

// secretBytes are too many to be guessed: so one round of SHA-256 protects the stored secret.
const secretBytes = 16

// A token is stored as the hash of its secret.
type token struct {
	SHA256  string    `json:"sha256"`
	Role    Role      `json:"role"`
	Expires time.Time `json:"expires"`
	Uses    int       `json:"uses"` // remaining uses
}

// Token makes a token for a number of members, a role and a life. It is SECRET.HASH in hexadecimal digits: the hash
// is of the authority's public key, as a certificate has it.
func (a *Authority) Token(role Role, life time.Duration, uses int) (string, error) {
	secret := make([]byte, secretBytes)
	_, _ = rand.Read(secret) // documented to never fail
	text := hex.EncodeToString(secret) + "." + keyHash(a.certificate)
	if err := a.Accept(text, role, life, uses); err != nil {
		return "", err
	}
	return text, nil
}

// Accept lets members join with an existing token. It sets the token's role, life and number of members.
func (a *Authority) Accept(text string, role Role, life time.Duration, uses int) error {
	secret, key, err := parseToken(text)
	if err != nil {
		return err
	}
	if key != keyHash(a.certificate) {
		return errors.New("the token is of another fleet")
	}
	if err := role.validate(); err != nil {
		return err
	}
	if life <= 0 || life > MaxTokenLife {
		return fmt.Errorf("a token's life of %v: want at most %v", life, MaxTokenLife)
	}
	if uses < 1 || uses > MaxUses {
		return fmt.Errorf("a token for %d members: want 1 to %d", uses, MaxUses)
	}
	added := token{hash(secret), role, time.Now().Add(life), uses}
	err = a.changeTokens(func(tokens []token) ([]token, error) {
		tokens = slices.DeleteFunc(tokens, func(t token) bool { return t.SHA256 == added.SHA256 })
		if len(tokens) >= MaxTokens {
			return nil, fmt.Errorf("%d tokens have not expired: want fewer, for more members or a shorter time", len(tokens))
		}
		return append(tokens, added), nil
	})
	if err != nil {
		return fmt.Errorf("add a token: %w", err)
	}
	return nil
}

// Errors of unusable tokens.
var (
	errUnknown = errors.New("the token is not one of this fleet, or has expired")
	errUsedUp  = errors.New("the token was used by as many members as it is for")
)

// use takes one use of a token, and returns its role.
func (a *Authority) use(secret []byte) (role Role, err error) {
	sum := []byte(hash(secret))
	err = a.changeTokens(func(tokens []token) ([]token, error) {
		found := -1
		for i, t := range tokens { // all of them, so that the time does not reveal which
			if subtle.ConstantTimeCompare([]byte(t.SHA256), sum) == 1 {
				found = i
			}
		}
		if found < 0 {
			return nil, errUnknown
		}
		if tokens[found].Uses < 1 {
			return nil, errUsedUp
		}
		tokens[found].Uses--
		role = tokens[found].Role
		return tokens, nil
	})
	return role, err
}

// changeTokens replaces the unexpired tokens by the result of a function. It excludes other processes meanwhile.
func (a *Authority) changeTokens(change func([]token) ([]token, error)) error {
	lock, err := os.OpenFile(filepath.Join(a.folder, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }() // nothing was written; this releases it
	if err := filelock.Lock(lock); err != nil {
		return fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	file := filepath.Join(a.folder, tokensFile)
	var tokens []token
	text, err := os.ReadFile(file)
	if err == nil {
		if err := json.Unmarshal(text, &tokens); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	} else if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	now := time.Now()
	tokens = slices.DeleteFunc(tokens, func(t token) bool { return !now.Before(t.Expires) })
	if tokens, err = change(tokens); err != nil {
		return err
	}
	if text, err = json.Marshal(tokens); err != nil {
		return err
	}
	return writeFile(file, text, os.Rename)
}

// parseToken returns the secret, and the hash of the key that the authority must have.
func parseToken(text string) (secret []byte, key string, err error) {
	first, key, _ := strings.Cut(text, ".")
	secret, err = hex.DecodeString(first)
	sum, wrong := hex.DecodeString(key)
	if err != nil || wrong != nil || len(secret) != secretBytes || len(sum) != sha256.Size {
		return nil, "", fmt.Errorf("the token is malformed: want %d hexadecimal digits, a dot and %d hexadecimal digits", 2*secretBytes, 2*sha256.Size)
	}
	return secret, strings.ToLower(key), nil
}

func hash(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// keyHash returns the part of kubeadm's --discovery-token-ca-cert-hash after sha256:.
func keyHash(c *x509.Certificate) string { return hash(c.RawSubjectPublicKeyInfo) }
