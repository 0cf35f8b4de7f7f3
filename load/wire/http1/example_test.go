package http1_test

import (
	"fmt"

	"dyno/load/wire/http1"
)

func Example() {
	url, err := http1.ParseURL("http://[::1]:8080/status")
	if err != nil {
		panic(err)
	}
	request, err := http1.Request{Method: "GET", Host: url.Host, Target: url.Target}.Encode()
	if err != nil {
		panic(err)
	}
	template, err := http1.NewTemplate(http1.Config{Request: request, Limits: http1.DefaultLimits()})
	if err != nil {
		panic(err)
	}
	client := template.Client()
	client.Reset() // connected to url.Address
	fmt.Printf("%q\n", client.Request())
	for _, arrived := range []string{"HTTP/1.1 503 Busy\r\nContent-Le", "ngth: 5\r\n\r\nlater"} {
		n, done, err := client.Response([]byte(arrived))
		fmt.Println(n, done, err)
	}
	fmt.Println(client.Status(), client.BodyBytes(), client.Reusable())
	// Output:
	// "GET /status HTTP/1.1\r\nHost: [::1]:8080\r\nUser-Agent: dyno\r\n\r\n"
	// 29 false <nil>
	// 16 true status: status 503: later
	// 503 5 true
}
