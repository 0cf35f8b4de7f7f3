package tlslayer_test

import (
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"

	"dyno/load/wire/http1"
	"dyno/load/wire/tlslayer"
)

// One request over one connection. An event loop makes the same calls.
func Example() {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "hello")
	}))
	defer server.Close()

	context, err := tlslayer.NewContext(tlslayer.Config{
		ServerName: "example.com",
		ALPN:       []string{"http/1.1"},
		CA: tlslayer.File{
			Name: "ca.pem",
			Data: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
		},
	})
	check(err)
	request, err := http1.Request{Method: http.MethodGet, Host: "example.com", Target: "/"}.Encode()
	check(err)
	codec, err := http1.NewClient(http1.Config{Request: request, Limits: http1.DefaultLimits()})
	check(err)

	socket, err := net.Dial("tcp", server.Listener.Addr().String())
	check(err)
	defer socket.Close()
	layer := context.Conn()
	defer layer.Reset()
	out, err := layer.Start(nil)
	check(err)

	in := make([]byte, 64<<10)
	for done, asked := false, false; !done; {
		_, err = socket.Write(out)
		check(err)
		n, err := socket.Read(in)
		check(err)
		data, err := layer.Open(in[:n])
		check(err)
		out = layer.Flush(out[:0])
		if layer.State() == tlslayer.Established && !asked {
			fmt.Println(layer.Info().Version, layer.Info().ALPN)
			codec.Reset()
			out, err = layer.Seal(out, codec.Request())
			check(err)
			asked = true
		}
		if asked {
			_, done, err = codec.Response(data)
			check(err)
		}
	}
	fmt.Println(codec.Status(), codec.BodyBytes())
	// Output:
	// TLS 1.3 http/1.1
	// 200 5
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
