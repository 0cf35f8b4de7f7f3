package jwt

import (
	"context"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/MicahParks/jwkset"
	golangjwt "github.com/golang-jwt/jwt/v5"
)

// An Algorithm signs tokens (RFC 7518, section 3.1; RFC 8037 for EdDSA).
type Algorithm string

// The algorithms that are accepted; there are no others.
const (
	HS256 Algorithm = "HS256"
	RS256 Algorithm = "RS256"
	ES256 Algorithm = "ES256"
	EdDSA Algorithm = "EdDSA"
)

// Supported tells whether a is accepted.
func (a Algorithm) Supported() bool {
	return slices.Contains([]Algorithm{HS256, RS256, ES256, EdDSA}, a)
}

// Bounds of keys.
const (
	minRSA = 2048 // bits (RFC 7518, section 3.3)
	maxRSA = 8192 // bits: what a signature costs grows with the square
	maxID  = 128  // bytes of a key's ID
)

// A Key verifies tokens of one algorithm: a public key can never be taken for a
// secret. Its fields are not changed once it is in use.
type Key struct {
	// ID is the "kid" of the tokens that it signs; "" is none.
	ID        string
	Algorithm Algorithm
	// Material is a []byte for HS256, an *rsa.PublicKey for RS256, an *ecdsa.PublicKey
	// for ES256 and an ed25519.PublicKey for EdDSA.
	Material any
}

// minSecret is the length of HS256's secrets in bytes, at least (RFC 7518, section 3.2).
const minSecret = 32

// ParseKey reads a key without an ID: the secret of HS256, or otherwise a public key in PEM.
func ParseKey(a Algorithm, material []byte) (Key, error) {
	k := Key{Algorithm: a, Material: material}
	var err error
	switch a {
	case HS256:
		if len(material) < minSecret {
			return k, fmt.Errorf("a secret of %d bytes: HS256 needs at least %d", len(material), minSecret)
		}
	case RS256:
		k.Material, err = golangjwt.ParseRSAPublicKeyFromPEM(material)
	case ES256:
		k.Material, err = golangjwt.ParseECPublicKeyFromPEM(material)
	case EdDSA:
		k.Material, err = golangjwt.ParseEdPublicKeyFromPEM(material)
	default:
		return k, fmt.Errorf("method: %q: must be HS256, RS256, ES256 or EdDSA", a)
	}
	if err != nil {
		return k, fmt.Errorf("want a public key of %s in PEM: %w", a, err)
	}
	return k, nil
}

// check refuses a published key that is too weak, too large or none at all. Its material fits its
// algorithm.
func (k Key) check() error {
	if len(k.ID) > maxID {
		return fmt.Errorf("key %q: an ID of %d bytes: must be %d at most", k.ID, len(k.ID), maxID)
	}
	m, ok := k.Material.(*rsa.PublicKey)
	if !ok {
		return nil // the curves of others have one size
	}
	if bits := m.N.BitLen(); bits < minRSA || bits > maxRSA {
		return fmt.Errorf("key %q: %d bits: RS256 needs %d to %d", k.ID, bits, minRSA, maxRSA)
	}
	if m.E < 3 || m.E > 1<<31-1 || m.E%2 == 0 || m.N.Bit(0) == 0 {
		return fmt.Errorf("key %q: no RSA key: modulus and exponent must be odd, the exponent 3 to 2^31", k.ID)
	}
	return nil
}

// Keys are some keys at one moment: those that verify at the same time while one
// replaces another.
type Keys []Key

// maxKeys bounds the keys of an issuer.
const maxKeys = 64

// Find returns the keys that may have signed a token: the one of this ID, if it is for this algorithm.
// A token without an ID could be signed by any key of the algorithm. A key without an ID could have
// signed any token.
func (keys Keys) Find(_ context.Context, id string, a Algorithm) Keys {
	var found Keys
	for _, k := range keys {
		if k.Algorithm == a && (id == "" || k.ID == "" || k.ID == id) {
			found = append(found, k)
		}
	}
	return found
}

// Generation never changes: nor do the keys.
func (keys Keys) Generation() uint64 { return 0 }

// maxSetBytes bounds the JSON of a key set.
const maxSetBytes = 64 << 10

// ParseSet reads a JSON Web Key Set (RFC 7517, section 5). Keys for algorithms that are not accepted,
// or for encryption, are left out, as the RFC wants it. Signs of deception refuse the whole set:
// secrets and private keys, two keys of one ID, an excess of keys. So do keys that are too weak, too
// large or not on their curve.
func ParseSet(text []byte, accepted []Algorithm) (Keys, error) {
	if len(text) > maxSetBytes {
		return nil, fmt.Errorf("key set: %d bytes: must be %d at most", len(text), maxSetBytes)
	}
	var set jwkset.JWKSMarshal
	if err := json.Unmarshal(text, &set); err != nil {
		return nil, fmt.Errorf("key set: %w", err)
	}
	if len(set.Keys) > maxKeys {
		return nil, fmt.Errorf("key set: %d keys: must be %d at most", len(set.Keys), maxKeys)
	}
	var keys Keys
	for i, j := range set.Keys {
		k, err := verificationKey(j)
		if err != nil {
			return nil, fmt.Errorf("key set: key %d: %w", i+1, err)
		}
		if k.Material == nil || !slices.Contains(accepted, k.Algorithm) {
			continue
		}
		if slices.ContainsFunc(keys, func(other Key) bool { return other.ID == k.ID }) {
			return nil, fmt.Errorf("key set: key %q: there are two of this ID", k.ID)
		}
		keys = append(keys, k)
	}
	if len(keys) == 0 {
		return nil, errors.New("key set: no keys")
	}
	return keys, nil
}

// verificationKey returns the key of a set (RFC 7517, section 4; RFC 7518, section 6), one without
// material if it is for nothing that is known here.
func verificationKey(j jwkset.JWKMarshal) (Key, error) {
	if j.K != "" || j.D != "" || j.P != "" || j.Q != "" || j.KTY == jwkset.KtyOct {
		return Key{}, fmt.Errorf("%q: a secret, which a published set never has", j.KID)
	}
	if j.USE != "" && j.USE != jwkset.UseSig || len(j.KEYOPS) > 0 && !slices.Contains(j.KEYOPS, jwkset.KeyOpsVerify) {
		return Key{}, nil
	}
	k := Key{ID: j.KID}
	switch {
	case j.KTY == jwkset.KtyRSA:
		k.Algorithm = RS256
	case j.KTY == jwkset.KtyEC && j.CRV == jwkset.CrvP256:
		k.Algorithm = ES256
	case j.KTY == jwkset.KtyOKP && j.CRV == jwkset.CrvEd25519:
		k.Algorithm = EdDSA
	default:
		return Key{}, nil
	}
	// No certificates, and no URL of them.
	parsed, err := jwkset.NewJWKFromMarshal(jwkset.JWKMarshal{KTY: j.KTY, CRV: j.CRV, N: j.N, E: j.E, X: j.X, Y: j.Y}, jwkset.JWKMarshalOptions{}, jwkset.JWKValidateOptions{StrictPadding: true})
	if err != nil {
		return Key{}, fmt.Errorf("%q: %w", j.KID, err)
	}
	if j.ALG != "" && Algorithm(j.ALG) != k.Algorithm {
		if Algorithm(j.ALG).Supported() {
			return Key{}, fmt.Errorf("%q: a key of type %s for algorithm %s", j.KID, j.KTY, j.ALG)
		}
		return Key{}, nil // such as PS256
	}
	k.Material = parsed.Key()
	return k, k.check()
}
