package tlslayer

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// An opensslServer is OpenSSL's s_server, on a port of its own.
type opensslServer struct {
	tb      testing.TB
	address string
	stdin   io.Writer
	stdout  *bufio.Scanner
}

// newOpenSSL starts s_server with the tests' certificates and more arguments.
func newOpenSSL(tb testing.TB, args ...string) *opensslServer {
	tb.Helper()
	path, err := exec.LookPath("openssl")
	if err != nil {
		tb.Skip("openssl is not installed")
	}
	dir := tb.TempDir()
	file := func(name string, data []byte) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, data, 0o600); err != nil {
			tb.Fatal(err)
		}
		return name
	}
	// Long before the tests' own limit, a server that does not answer fails its test.
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	server := serverCredentials()
	cmd := exec.CommandContext(ctx, path, append([]string{
		"s_server", "-accept", "127.0.0.1:0",
		"-cert", file("server.pem", server.cert), "-key", file("server.key", server.key),
		"-CAfile", file("ca.pem", authority().cert),
	}, args...)...)
	s := &opensslServer{tb: tb}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	s.stdin = must(cmd.StdinPipe())
	stdout := must(cmd.StdoutPipe())
	s.stdout = bufio.NewScanner(stdout)
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // was killed
		if tb.Failed() {
			tb.Logf("openssl: %s", &stderr)
		}
	})
	s.address = strings.TrimPrefix(s.line("ACCEPT "), "ACCEPT ")
	return s
}

// line waits for a line of the server's that begins so.
func (s *opensslServer) line(prefix string) string {
	s.tb.Helper()
	var seen []string
	for s.stdout.Scan() {
		if line := s.stdout.Text(); strings.HasPrefix(line, prefix) {
			return line
		}
		seen = append(seen, s.stdout.Text())
	}
	s.tb.Fatalf("openssl says no %q; it says %q", prefix, seen)
	return ""
}

// A socket is a client on a real connection.
type socket struct {
	tb    testing.TB
	conn  net.Conn
	layer *Conn
	in    []byte
	data  []byte // not read yet
}

// dial connects, and runs the handshake.
func dial(tb testing.TB, x *Context, address string) *socket {
	tb.Helper()
	s := &socket{tb: tb, conn: must(net.Dial("tcp", address)), layer: x.Conn(), in: make([]byte, 64<<10)}
	tb.Cleanup(s.close)
	// Long before the tests' own limit, a server that does not answer fails its test.
	s.conn.SetDeadline(time.Now().Add(time.Minute))
	must(s.conn.Write(must(s.layer.Start(nil))))
	for s.layer.State() == Handshaking {
		data, err := s.more()
		if err != nil {
			tb.Fatal(err)
		}
		s.data = append(s.data, data...)
	}
	return s
}

// close ends the connection, if it was not ended.
func (s *socket) close() {
	_, _ = s.conn.Write(s.layer.CloseNotify(nil)) // for a server that minds
	s.layer.Reset()
	s.conn.Close()
}

// more reads once. The error is the layer's, or io.EOF if there is no more to come.
func (s *socket) more() ([]byte, error) {
	if s.layer.State() == Ended {
		return nil, io.EOF
	}
	n, err := s.conn.Read(s.in)
	if err != nil {
		if err := s.layer.End(); err != nil {
			return nil, err
		}
		return nil, io.EOF
	}
	data, err := s.layer.Open(s.in[:n])
	if s.layer.Pending() {
		if _, err := s.conn.Write(s.layer.Flush(nil)); err != nil {
			s.tb.Fatal(err)
		}
	}
	return data, err
}

func (s *socket) write(p []byte) {
	s.tb.Helper()
	out, err := s.layer.Seal(nil, p)
	if err == nil {
		_, err = s.conn.Write(out)
	}
	if err != nil {
		s.tb.Fatal(err)
	}
}

// readUntil returns the data up to and including a text.
func (s *socket) readUntil(text string) string {
	s.tb.Helper()
	for {
		if i := bytes.Index(s.data, []byte(text)); i >= 0 {
			got := string(s.data[:i+len(text)])
			s.data = s.data[i+len(text):]
			return got
		}
		data, err := s.more()
		if err != nil {
			s.tb.Fatalf("%v before %q came: %q", err, text, s.data)
		}
		s.data = append(s.data, data...)
	}
}

// readAll returns all data up to the end, and how it ended.
func (s *socket) readAll() ([]byte, error) {
	for {
		data, err := s.more()
		s.data = append(s.data, data...)
		if err != nil {
			return s.data, err
		}
	}
}

// page returns what s_server -www tells of the connection.
func page(tb testing.TB, s *socket) string {
	tb.Helper()
	s.write([]byte("GET / HTTP/1.0\r\n\r\n"))
	data, err := s.readAll()
	if !errors.Is(err, io.EOF) {
		tb.Fatalf("the page ends with %v: %q", err, data)
	}
	return string(data)
}

// OpenSSL confirms what Info says.
func TestOpenSSL(t *testing.T) {
	mine := clientCredentials()
	withCertificate := func(c *Config) { c.Certificate, c.Key = File{"me.pem", mine.cert}, File{"me.key", mine.key} }
	withTickets := func(c *Config) { c.Tickets = true }
	for _, c := range []struct {
		name    string
		args    []string
		edit    func(*Config)
		has     string // on the page
		alpn    string
		resumed bool // of the second connection and the third
	}{
		{"plain", nil, nil, "no client certificate available", "", false},
		{"client certificate", []string{"-Verify", "2", "-verify_return_error"}, withCertificate, "Subject: CN=client.test", "", false},
		{"ALPN", []string{"-alpn", "http/1.1,h2"}, func(c *Config) { c.ALPN = []string{"h2", "http/1.1"} }, "no client certificate available", "http/1.1", false},
		{"tickets", nil, withTickets, "no client certificate available", "", true},
		{"tickets of a server that keeps sessions", []string{"-no_ticket"}, withTickets, "no client certificate available", "", true},
		{"no tickets", []string{"-num_tickets", "0", "-no_ticket", "-no_cache"}, withTickets, "no client certificate available", "", false},
		{"default groups", nil, func(c *Config) { c.Groups = nil }, "no client certificate available", "", false},
	} {
		for _, version := range []string{"1.2", "1.3"} {
			t.Run(version+" "+c.name, func(t *testing.T) {
				server := newOpenSSL(t, append([]string{"-www"}, c.args...)...)
				config := clientConfig(version)
				if c.edit != nil {
					c.edit(&config)
				}
				x := newContext(t, config)
				for i := range 3 {
					s := dial(t, x, server.address)
					got := page(t, s)
					info := s.layer.Info()
					if want := c.resumed && i > 0 && !keepsSessionIDs(version, c.args); info.Resumed != want {
						t.Errorf("connection %d: resumed %v, want %v", i, info.Resumed, want)
					}
					session := "New"
					if info.Resumed {
						session = "Reused"
					}
					session += ", TLSv" + version + ", Cipher is " + openSSLName(info.CipherSuite)
					for _, want := range []string{session, c.has} {
						if !strings.Contains(got, want) {
							t.Errorf("connection %d: no %q in the page:\n%s", i, want, got)
						}
					}
					if info.ALPN != c.alpn || info.Version != "TLS "+version {
						t.Errorf("connection %d: %+v", i, info)
					}
					s.close() // OpenSSL waits for it, and serves one after another
				}
			})
		}
	}
}

// keepsSessionIDs tells whether a server resumes by session IDs only (RFC 5246, section
// 7.3), which crypto/tls does not do.
func keepsSessionIDs(version string, args []string) bool {
	return version == "1.2" && slices.Contains(args, "-no_ticket")
}

// OpenSSL asks for new keys, and gets them.
func TestOpenSSLKeyUpdate(t *testing.T) {
	for _, command := range []string{"K", "k"} { // with the client's, or without
		t.Run(command, func(t *testing.T) {
			server := newOpenSSL(t, "-tls1_3")
			s := dial(t, newContext(t, clientConfig("1.3")), server.address)
			s.write([]byte("before\n"))
			server.line("before")
			fmt.Fprintln(server.stdin, "after the tickets") // which come first
			s.readUntil("after the tickets\n")
			fmt.Fprintln(server.stdin, command)
			if data, err := s.more(); err != nil || len(data) > 0 {
				t.Fatalf("got %q, error %v, want a key update", data, err)
			}
			fmt.Fprintln(server.stdin, "with new keys")
			s.readUntil("with new keys\n")
			s.write([]byte("after\n"))
			server.line("after")
		})
	}
}

func TestOpenSSLRenegotiation(t *testing.T) {
	server := newOpenSSL(t, "-tls1_2")
	s := dial(t, newContext(t, clientConfig("1.2")), server.address)
	s.write([]byte("before\n"))
	server.line("before")
	fmt.Fprintln(server.stdin, "r")
	if data, err := s.readAll(); !errors.Is(err, ErrRenegotiation) {
		t.Errorf("got %q, error %v", data, err)
	}
}
