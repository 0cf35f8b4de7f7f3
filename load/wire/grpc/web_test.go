package grpc

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// serveWeb is a service that speaks gRPC-Web, in net/http, over HTTP/1.1 and HTTP/2.
func serveWeb(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	s := &http.Server{Handler: http.HandlerFunc(answerWeb), Protocols: protocols, ReadHeaderTimeout: time.Minute}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(l)
	}()
	t.Cleanup(func() {
		s.Close()
		<-done
	})
	return l.Addr().String()
}

func answerWeb(w http.ResponseWriter, r *http.Request) {
	kind := r.Header.Get("Content-Type")
	text := kind == "application/grpc-web-text+proto"
	body, err := io.ReadAll(r.Body)
	if text && err == nil {
		body, err = base64.StdEncoding.DecodeString(string(body))
	}
	if err != nil || len(body) < 5 || int(binary.BigEndian.Uint32(body[1:])) != len(body)-5 || r.Header.Get("X-Grpc-Web") != "1" {
		http.Error(w, "no gRPC-Web", http.StatusBadRequest)
		return
	}
	message := body[5:]
	write := func(flags byte, payload []byte) {
		b := append(binary.BigEndian.AppendUint32([]byte{flags}, uint32(len(payload))), payload...)
		if text {
			b = []byte(base64.StdEncoding.EncodeToString(b))
		}
		_, _ = w.Write(b)
		_ = http.NewResponseController(w).Flush()
	}
	w.Header().Set("Content-Type", kind)
	switch r.URL.Path {
	case "/t.S/Echo":
		write(0, message)
	case "/t.S/Expand":
		for n, _ := strconv.Atoi(string(message)); n > 0; n-- {
			write(0, []byte(strconv.Itoa(n)))
		}
	case "/t.S/TrailersOnly":
		w.Header().Set("Grpc-Status", "7")
		w.Header().Set("Grpc-Message", "not%20you")
		return
	case "/t.S/Status":
		write(flagTrailers, []byte("grpc-status:5\r\nGRPC-Message: no%20such\r\n"))
		return
	case "/t.S/StatusAhead": // in the header, where only responses without content have it
		w.Header().Set("Grpc-Status", "7")
		write(0, message)
		return
	case "/t.S/NoTrailers":
		write(0, message)
		return
	case "/t.S/Behind":
		write(flagTrailers, []byte("grpc-status: 0\r\n"))
		write(0, message)
		return
	default:
		http.NotFound(w, r)
		return
	}
	write(flagTrailers, []byte("grpc-status: 0\r\ngrpc-message: \r\n"))
}

type webCase struct {
	method, message string
	stream          bool
	messages        int
	code            Code
	err             string
}

var webCases = []webCase{
	{"Echo", "hello", false, 1, OK, ""},
	{"Echo", "", false, 1, OK, ""},
	{"Echo", strings.Repeat("0123456789", 30_000), false, 1, OK, ""},
	{"Expand", "5", true, 5, OK, ""},
	{"Expand", "0", true, 0, OK, ""},
	{"TrailersOnly", "", false, 0, PermissionDenied, "status: grpc PERMISSION_DENIED: not you"},
	{"Status", "", false, 0, NotFound, "status: grpc NOT_FOUND: no such"},
	{"NoTrailers", "x", false, 1, Unknown, "protocol: grpc UNKNOWN: response without grpc-status"},
	{"StatusAhead", "x", false, 1, Unknown, "protocol: grpc UNKNOWN: response without grpc-status"},
	{"Behind", "x", false, 0, Internal, "protocol: grpc INTERNAL: content after the trailers"},
	{"None", "x", false, 0, Unimplemented, "status: grpc UNIMPLEMENTED: HTTP status 404 without grpc-status"},
	{"Expand", "2", false, 0, Unimplemented, "protocol: grpc UNIMPLEMENTED: more than one message in a response that has one"},
}

func (w webCase) config(web Web, address string) Config {
	call := Call{Scheme: "http", Authority: address, Path: "/t.S/" + w.method, Messages: [][]byte{[]byte(w.message)}, ServerStream: w.stream}
	c := config(call)
	c.Web = web
	return c
}

func TestWebHTTP1(t *testing.T) {
	address := serveWeb(t)
	for _, web := range []Web{Binary, Text} {
		for _, tt := range webCases {
			for _, piece := range []int{4000, 5} {
				template, err := NewWebTemplate(tt.config(web, address))
				if err != nil {
					t.Fatal(err)
				}
				client := template.WebClient()
				conn, err := net.Dial("tcp", address)
				if err != nil {
					t.Fatal(err)
				}
				client.Reset()
				for round := range 2 {
					err := exchange(t, conn, client, piece)
					got := ""
					if err != nil {
						got = err.Error()
					}
					if got != tt.err || client.Status() != int(tt.code) {
						t.Errorf("form %d, %s, round %d: got status %d, %q, want %s, %q", web, tt.method, round, client.Status(), got, tt.code, tt.err)
					}
					if tt.err == "" && int(client.Messages()) != tt.messages {
						t.Errorf("form %d, %s: %d messages, want %d", web, tt.method, client.Messages(), tt.messages)
					}
					if !client.Reusable() {
						if tt.code != Internal && tt.err == "" {
							t.Errorf("form %d, %s: the connection is lost", web, tt.method)
						}
						break
					}
				}
				conn.Close()
			}
		}
	}
}

// exchange carries out one call over HTTP/1.1.
func exchange(t *testing.T, conn net.Conn, client *WebClient, piece int) error {
	t.Helper()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write(client.Request()); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, piece)
	for {
		n, err := conn.Read(buf)
		if errors.Is(err, io.EOF) {
			return client.End()
		}
		if err != nil {
			t.Fatal(err)
		}
		if used, done, err := client.Response(buf[:n]); done || err != nil {
			return err
		} else if used < n {
			t.Fatalf("%d of %d bytes were used", used, n)
		}
		clear(buf)
	}
}

func TestWebHTTP2(t *testing.T) {
	address := serveWeb(t)
	for _, web := range []Web{Binary, Text} {
		for _, tt := range webCases {
			k := dial(t, newClient(t, tt.config(web, address)), address)
			for range 2 {
				messages, end := k.call(0)
				got := ""
				if end.Err != nil {
					got = end.Err.Error()
				}
				if got != tt.err || end.Status != int16(tt.code) {
					t.Errorf("form %d, %s: got status %d, %q, want %s, %q", web, tt.method, end.Status, got, tt.code, tt.err)
				}
				if tt.err == "" && tt.stream && len(messages) != tt.messages {
					t.Errorf("form %d, %s: %d messages, want %d", web, tt.method, len(messages), tt.messages)
				}
			}
		}
	}
}
