package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// serve answers requests, and writes a line for each in the order of their ends: when the kernel
// received its last bytes in nanoseconds since 1970, the client's address, and the bytes, quoted.
func serve(ctx context.Context, o options, _ []string, _ io.Writer) error {
	file, err := os.Create(o.save)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", o.listen)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { l.Close() })()
	lines := make(chan string, 1024)
	var serving sync.WaitGroup
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				serving.Wait()
				close(lines)
				return
			}
			serving.Go(func() {
				defer context.AfterFunc(ctx, func() { conn.Close() })()
				answerAll(conn, lines)
			})
		}
	}()
	w := bufio.NewWriter(file)
	for line := range lines {
		if _, err := w.WriteString(line); err != nil {
			return err
		}
	}
	return errors.Join(w.Flush(), file.Close())
}

// answerAll answers the requests of a connection until it ends.
func answerAll(conn net.Conn, lines chan<- string) {
	defer conn.Close()
	host, _, _ := net.SplitHostPort(conn.RemoteAddr().String())
	s := &stamped{control: make([]byte, 128)}
	var err error
	if s.raw, err = conn.(*net.TCPConn).SyscallConn(); err != nil {
		return
	}
	if err := s.raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1) }); err != nil {
		return
	}
	var read bytes.Buffer
	in := bufio.NewReader(io.TeeReader(s, &read))
	for { // a client sends its next request after the answer, so what was read is one
		r, err := http.ReadRequest(in)
		if err == nil {
			_, err = io.Copy(io.Discard, r.Body)
		}
		if err != nil {
			return
		}
		lines <- fmt.Sprintf("%d\t%s\t%q\n", s.at, host, read.Bytes())
		read.Reset()
		if _, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"); err != nil {
			return
		}
	}
}

// A stamped connection says when the kernel received what was read last (socket(7), SO_TIMESTAMPNS). The kernel
// begins to stamp a moment after the first socket has asked for it: what came before is as old as its reading.
type stamped struct {
	raw     syscall.RawConn
	control []byte
	at      int64
}

func (s *stamped) Read(b []byte) (n int, err error) {
	failed := s.raw.Read(func(fd uintptr) bool {
		var size int
		n, size, _, _, err = unix.Recvmsg(int(fd), b, s.control, 0)
		if err == nil && n > 0 {
			if s.at, err = stamp(s.control[:size]); s.at == 0 {
				s.at = time.Now().UnixNano()
			}
		}
		return !errors.Is(err, unix.EAGAIN)
	})
	if err = errors.Join(failed, err); err == nil && n == 0 {
		err = io.EOF
	}
	return max(n, 0), err
}

// stamp returns the time stamp that came with bytes, or 0.
func stamp(control []byte) (int64, error) {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return 0, err
	}
	for _, m := range messages {
		if m.Header.Level == unix.SOL_SOCKET && m.Header.Type == unix.SO_TIMESTAMPNS && len(m.Data) == 16 {
			return int64(binary.NativeEndian.Uint64(m.Data))*1e9 + int64(binary.NativeEndian.Uint64(m.Data[8:])), nil
		}
	}
	return 0, nil
}

// A request is a line that serve has written.
type request struct {
	at    int64
	from  string
	bytes string
}

// read returns the requests by their numbers, how many came more than once, and how many have no number.
func read(name string) (byNumber map[int]request, repeated, others int, err error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, 0, 0, err
	}
	byNumber = map[int]request{}
	for line := range strings.Lines(string(text)) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), "\t", 3)
		if len(fields) != 3 {
			return nil, 0, 0, fmt.Errorf("%s: %.100q is no line of a request", name, line)
		}
		r := request{from: fields[1]}
		var bad error
		r.at, err = strconv.ParseInt(fields[0], 10, 64)
		if r.bytes, bad = strconv.Unquote(fields[2]); err != nil || bad != nil {
			return nil, 0, 0, fmt.Errorf("%s: %w", name, errors.Join(err, bad))
		}
		var method string
		var number int
		if _, err := fmt.Sscanf(r.bytes, "%s /%d", &method, &number); err != nil {
			others++
			continue
		}
		if _, known := byNumber[number]; known {
			repeated++
		}
		byNumber[number] = r
	}
	return byNumber, repeated, others, nil
}

// relay passes connections on, and saves what comes back: of one connection after the other.
func relay(ctx context.Context, o options, _ []string, _ io.Writer) error {
	file, err := os.Create(o.save)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", o.listen)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { l.Close() })()
	for {
		conn, err := l.Accept()
		if err != nil {
			return file.Close()
		}
		to, err := net.Dial("tcp", o.to)
		if err != nil {
			return errors.Join(err, conn.Close(), file.Close())
		}
		go func() {
			_, _ = io.Copy(to, conn) // if this fails, the other end says so, too
			_ = to.(*net.TCPConn).CloseWrite()
		}()
		_, err = io.Copy(io.MultiWriter(conn, file), to)
		if err := errors.Join(err, conn.Close(), to.Close()); err != nil && !errors.Is(err, syscall.ECONNRESET) {
			return errors.Join(err, file.Close())
		}
	}
}
