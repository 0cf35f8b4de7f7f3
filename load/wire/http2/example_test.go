package http2_test

import (
	"fmt"

	"dyno/load/wire"
	"dyno/load/wire/http2"
)

func Example() {
	template, err := http2.NewTemplate(http2.Config{
		Requests: []http2.Request{{
			Method: "GET", Scheme: "http", Authority: "[::1]:8080", VariesPath: true,
			Header: []http2.Field{{Name: "Authorization", Value: "Bearer 1234"}},
		}},
		Streams: 100,
		Fields:  []string{"etag"},
	})
	if err != nil {
		panic(err)
	}
	client := template.Client()
	client.Reset() // connected
	write := func() {
		fmt.Println(len(client.Output()), "bytes to write")
		client.Wrote(len(client.Output()))
	}
	read := func(arrived string) {
		for p := []byte(arrived); ; {
			n, e, err := client.Input(p)
			if err != nil {
				panic(err)
			}
			p = p[n:]
			if e.Kind == wire.MuxNothing {
				return
			}
			fmt.Println("exchange", e.ID, "status", e.Status, "ended", e.Kind == wire.MuxEnded, "with", e.Bytes, "bytes")
			for _, f := range client.Fields() {
				fmt.Printf("etag %s\n", f.Value)
			}
		}
	}
	read("\x00\x00\x00\x04\x00\x00\x00\x00\x00") // SETTINGS
	write()
	for id, path := range []string{"/a", "/b"} {
		if err := client.Begin(uint32(id), 0, [][]byte{[]byte(path)}); err != nil {
			panic(err)
		}
		write()
	}
	read("\x00\x00\x06\x01\x04\x00\x00\x00\x01\x88\x62\x03\"x") // the header on stream 1
	read("\"\x00\x00\x05\x00\x01\x00\x00\x00\x01hello")         // its end
	// Output:
	// 73 bytes to write
	// 42 bytes to write
	// 18 bytes to write
	// exchange 0 status 200 ended true with 5 bytes
	// etag "x"
}
