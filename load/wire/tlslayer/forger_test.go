package tlslayer

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"strings"
	"testing"
)

// A forger makes records as a server would that has completed a handshake: those that crypto/tls's
// server would never send. It speaks AES-128-GCM with SHA-256, by RFC 8446, sections 5.2 and 7, and RFC
// 5246, section 6.3, with RFC 5288.
type forger struct {
	aead     cipher.AEAD
	iv       []byte
	secret   []byte // of TLS 1.3; nil: TLS 1.2
	sequence uint64
}

// keyLog is a key log (RFC 9850), which holds a connection's secrets.
type keyLog struct{ bytes.Buffer }

// secret returns the last field of the line that begins with a label.
func (k *keyLog) secret(tb testing.TB, label string) (clientRandom, secret []byte) {
	tb.Helper()
	for line := range strings.Lines(k.String()) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == label {
			return must(hex.DecodeString(f[1])), must(hex.DecodeString(f[2]))
		}
	}
	tb.Fatalf("no %s in the key log %q", label, k)
	return nil, nil
}

// forged returns a link after its handshake, and forgers in place of its two sides'
// encryption.
func forged(tb testing.TB, version string) (l *link, server, client *forger) {
	tb.Helper()
	return forgedOn(tb, newContext(tb, clientConfig(version)), link{})
}

// forgedOn is forged with a context of the caller's, and with the link's cuts.
func forgedOn(tb testing.TB, x *Context, cuts link) (l *link, server, client *forger) {
	tb.Helper()
	var log keyLog
	config := serverConfig()
	config.KeyLogWriter = &log
	config.CipherSuites = []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256}
	l = newLink(tb, x, config)
	l.cut, l.piece, l.limit = cuts.cut, cuts.piece, cuts.limit
	out, err := l.client.Start(nil)
	if err != nil {
		tb.Fatal(err)
	}
	var serverRandom []byte
	for len(out) > 0 {
		if _, err := l.server.Open(out); err != nil {
			tb.Fatal(err)
		}
		out = l.server.Flush(nil)
		if serverRandom == nil {
			// After the record's header, the message's and the version.
			serverRandom = bytes.Clone(out[recordHeader+4+2:][:32])
		}
		l.toClient(out)
		out = l.client.Flush(nil)
	}
	if l.server.State() != Established {
		return l, nil, nil // cut off
	}
	if x.config.MaxVersion == tls.VersionTLS13 {
		_, s := log.secret(tb, "SERVER_TRAFFIC_SECRET_0")
		_, c := log.secret(tb, "CLIENT_TRAFFIC_SECRET_0")
		return l, newForger(s), newForger(c)
	}
	clientRandom, master := log.secret(tb, "CLIENT_RANDOM")
	keys := prf(master, "key expansion", append(serverRandom, clientRandom...), 2*16+2*4)
	// The Finished message was the first record of either side.
	return l, &forger{aead: gcm(keys[16:32]), iv: keys[36:40], sequence: 1}, &forger{aead: gcm(keys[:16]), iv: keys[32:36], sequence: 1}
}

// newForger begins with a traffic secret of TLS 1.3.
func newForger(secret []byte) *forger {
	return &forger{aead: gcm(expand(secret, "key", 16)), iv: expand(secret, "iv", 12), secret: secret}
}

// updated is the forger after a key update.
func (f *forger) updated() *forger { return newForger(expand(f.secret, "traffic upd", 32)) }

// record encrypts content of a type.
func (f *forger) record(kind byte, content []byte) []byte {
	nonce, header := f.next(kind, len(content))
	if f.secret != nil {
		header[0] = recordData
		inner := append(bytes.Clone(content), kind)
		binary.BigEndian.PutUint16(header[3:], uint16(len(inner)+f.aead.Overhead()))
		return f.aead.Seal(header, nonce, inner, header)
	}
	aad := binary.BigEndian.AppendUint64(nil, f.sequence-1)
	aad = append(aad, header...)
	binary.BigEndian.PutUint16(header[3:], uint16(8+len(content)+f.aead.Overhead()))
	return f.aead.Seal(append(header, nonce[4:]...), nonce, content, aad)
}

// next returns the nonce and the header of the next record.
func (f *forger) next(kind byte, size int) (nonce, header []byte) {
	header = []byte{kind, 3, 3, byte(size >> 8), byte(size)}
	if f.secret == nil {
		nonce = binary.BigEndian.AppendUint64(bytes.Clone(f.iv), f.sequence)
	} else {
		nonce = bytes.Clone(f.iv)
		for i, b := range binary.BigEndian.AppendUint64(nil, f.sequence) {
			nonce[4+i] ^= b
		}
	}
	f.sequence++
	return nonce, header
}

// open decrypts the first record of TLS 1.3 in p, and returns what follows it.
func (f *forger) open(tb testing.TB, p []byte) (kind byte, content, rest []byte) {
	tb.Helper()
	if len(p) < recordHeader || len(p) < recordHeader+payload(p) {
		tb.Fatalf("no whole record: %x", p)
	}
	nonce, _ := f.next(0, 0)
	end := recordHeader + payload(p)
	inner, err := f.aead.Open(nil, nonce, p[recordHeader:end], p[:recordHeader])
	if err != nil {
		tb.Fatalf("record %d: %v", f.sequence-1, err)
	}
	inner = bytes.TrimRight(inner, "\x00")
	return inner[len(inner)-1], inner[:len(inner)-1], p[end:]
}

func gcm(key []byte) cipher.AEAD { return must(cipher.NewGCM(must(aes.NewCipher(key)))) }

// expand is HKDF-Expand-Label (RFC 8446, section 7.1) without a context.
func expand(secret []byte, label string, size int) []byte {
	label = "tls13 " + label
	info := append([]byte{byte(size >> 8), byte(size), byte(len(label))}, label...)
	return must(hkdf.Expand(sha256.New, secret, string(append(info, 0)), size))
}

// prf is TLS 1.2's (RFC 5246, section 5).
func prf(secret []byte, label string, seed []byte, size int) (out []byte) {
	sum := func(parts ...[]byte) []byte {
		h := hmac.New(sha256.New, secret)
		for _, p := range parts {
			h.Write(p)
		}
		return h.Sum(nil)
	}
	seed = append([]byte(label), seed...)
	for a := sum(seed); len(out) < size; a = sum(a) {
		out = append(out, sum(a, seed)...)
	}
	return out[:size]
}

// Messages for forgers to send.
var (
	updateRequested = []byte{24, 0, 0, 1, 1}
	updateSilent    = []byte{24, 0, 0, 1, 0}
	helloRequest    = []byte{0, 0, 0, 0}
	closeNotify     = []byte{1, 0}
)

// recordData is the type of records with data, and of all encrypted ones of TLS 1.3.
const recordData = 23
