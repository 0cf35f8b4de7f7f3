package outward

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// TestSpellings: an address that may not be called is refused however it is written,
// before anything is looked up.
func TestSpellings(t *testing.T) {
	var closed Policy
	for _, host := range []string{
		// 127.0.0.1 as one number, in octal, in hexadecimal, and short.
		"2130706433", "017700000001", "0x7f000001", "0X7F000001", "0x7f.0.0.1", "0177.0.0.1", "127.0.0.0x1", "127.1", "127.0.1", "0", "0x", "127.0.0.1.", "127.0.0.01",
		// 169.254.169.254 in the same way.
		"2852039166", "0xa9fea9fe", "0251.0376.0251.0376", "169.254.43518",
		// Carried by IPv6, and with a zone.
		"[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[0:0:0:0:0:ffff:a9fe:a9fe]", "[::127.0.0.1]", "[64:ff9b::169.254.169.254]", "[2002:a9fe:a9fe::]",
		"[::1%25lo]", "[fe80::1%25eth0]", "[::ffff:127.0.0.1%25lo]", "[fd00:ec2::254]", "[fd20:ce::254]",
		// Characters that are mapped to digits and dots.
		"１２７.0.0.1", "①②⑦.⓪.⓪.①", "127。0。0。1", "ｌocalhost",
		// Where clouds hand out credentials.
		"169.254.169.254", "169.254.170.2", "100.100.100.200", "192.0.0.192", "168.63.129.16",
		// Parsers that disagree on which part is the host.
		"example.org@127.0.0.1", "127.0.0.1\\@example.org", "127.0.0.1%00.example.org", "127.0.0.1#@example.org", "127.0.0.1%23.example.org",
	} {
		for _, url := range []string{"http://" + host + "/v1", "http://" + host + ":6379/v1", "https://" + host} {
			if err := closed.CheckURL(url); err == nil {
				t.Errorf("%s: accepted", url)
			}
		}
	}
	for _, host := range []string{"example.org", "example.org.", "1.example", "0x7f.example", "a1", "xn--bcher-kva.example", "0xg"} {
		if err := closed.CheckURL("http://" + host + "/"); err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}
}

// names answers questions for addresses, each time with the next of a name's answers.
type names struct {
	t       *testing.T
	mu      sync.Mutex // guards answers
	answers map[string][][]string
	asked   sync.WaitGroup
}

// dial is a connection to it, in the form of DNS over TCP: two bytes of length before
// each message (RFC 1035, section 4.2.2).
func (n *names) dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	n.asked.Go(func() {
		defer server.Close()
		var length [2]byte
		if _, err := io.ReadFull(server, length[:]); err != nil {
			return // nobody asks any more
		}
		question := make([]byte, binary.BigEndian.Uint16(length[:]))
		if _, err := io.ReadFull(server, question); err != nil {
			return
		}
		answer, err := n.answer(question)
		if err != nil {
			n.t.Error(err)
			return
		}
		_, _ = server.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...))
	})
	return client, nil
}

func (n *names) answer(question []byte) ([]byte, error) {
	var m dnsmessage.Message
	if err := m.Unpack(question); err != nil {
		return nil, err
	}
	q := m.Questions[0]
	m.Response, m.RecursionAvailable, m.Additionals = true, true, nil
	n.mu.Lock()
	defer n.mu.Unlock()
	name := strings.TrimSuffix(q.Name.String(), ".")
	list := n.answers[name]
	if len(list) == 0 {
		m.RCode = dnsmessage.RCodeNameError
		return m.Pack()
	}
	for _, text := range list[0] {
		a := netip.MustParseAddr(text)
		h := dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET}
		switch {
		case q.Type == dnsmessage.TypeA && a.Is4():
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: h, Body: &dnsmessage.AResource{A: a.As4()}})
		case q.Type == dnsmessage.TypeAAAA && a.Is6():
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: h, Body: &dnsmessage.AAAAResource{AAAA: a.As16()}})
		}
	}
	if q.Type == dnsmessage.TypeA && len(list) > 1 {
		n.answers[name] = list[1:]
	}
	return m.Pack()
}

// TestRebinding: what a name resolves to may change after anybody has looked: what counts
// is the address that is called, at each call.
func TestRebinding(t *testing.T) {
	reached := 0
	inside := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached++ }))
	defer inside.Close()
	_, port, err := net.SplitHostPort(inside.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	n := &names{t: t, answers: map[string][][]string{
		"changes.example":          {{"127.0.0.1"}, {"127.0.0.2"}, {"127.0.0.1"}, {"169.254.169.254"}},
		"several.example":          {{"127.0.0.2", "127.0.0.1"}},
		"metadata.google.internal": {{"169.254.169.254"}},
		"carried.example":          {{"::ffff:127.0.0.2"}},
		"local.example":            {{"fe80::1"}},
		"zero.example":             {{"0.0.0.0"}},
	}}
	before := net.DefaultResolver
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: n.dial}
	defer func() { net.DefaultResolver = before }()
	defer n.asked.Wait()
	only := Policy{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}}
	for _, c := range []struct {
		host string
		ok   bool
	}{
		{"changes.example", true}, {"changes.example", false}, {"changes.example", true}, {"changes.example", false},
		{"several.example", true}, // by the address that is allowed
		{"metadata.google.internal", false}, {"carried.example", false}, {"local.example", false}, {"zero.example", false},
	} {
		url := "http://" + net.JoinHostPort(c.host, port) + "/"
		if err := only.CheckURL(url); err != nil {
			t.Errorf("%s: a name is looked up when it is called: %v", c.host, err)
		}
		transport := NewTransport(Config{Policy: only})
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		had := reached
		resp, err := NewClient(transport).Do(r)
		if err == nil {
			resp.Body.Close()
		}
		if c.ok != (err == nil) || !c.ok && !errors.Is(err, ErrRefused) || c.ok != (reached > had) {
			t.Errorf("%s: %v, reached %d times, want it called: %v", c.host, err, reached-had, c.ok)
		}
		cancel()
		transport.CloseIdleConnections()
	}
}

// TestNoProxy: a proxy of the environment would be called instead, wherever it is.
func TestNoProxy(t *testing.T) {
	if NewTransport(Config{}).Proxy != nil {
		t.Error("a proxy is used")
	}
}
