// Etcd is a plain etcd: the server that the control plane embeds, with its own defaults, for
// benchmarks that compare the two. It listens for clients on an address and keeps its data in
// a folder. With put it is a client as programs in Go have one: it opens connections, and
// puts many new keys at once. It prints how many a second there were, in JSON.
//
//	go run ./experiments/bench/etcd 127.0.0.1:2379 FOLDER
//	go run ./experiments/bench/etcd put 127.0.0.1:2379 CONNECTIONS AT-ONCE DURATION VALUE-FILE
package main

import (
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"syscall"

	"go.etcd.io/etcd/api/v3/version"
	"go.etcd.io/etcd/server/v3/embed"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "etcd:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 1 && args[0] == "--version" {
		fmt.Println("etcd Version:", version.Version)
		return nil
	}
	if len(args) == 6 && args[0] == "put" {
		return put(args[1:])
	}
	if len(args) != 2 {
		return fmt.Errorf("want an address and a folder, put and what it needs, or --version, not %q", args)
	}
	c := embed.NewConfig()
	c.Dir, c.LogLevel = args[1], "error"
	client, peer := url.URL{Scheme: "http", Host: args[0]}, url.URL{Scheme: "http", Host: "127.0.0.1:0"}
	c.ListenClientUrls, c.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	c.ListenPeerUrls, c.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	e, err := embed.StartEtcd(c)
	if err != nil {
		return err
	}
	defer e.Close()
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt, syscall.SIGTERM)
	select {
	case err := <-e.Err():
		return err
	case <-stop:
		return nil
	}
}
