// Package echopbconnect holds the echo's client and service for connectrpc.com/connect.
package echopbconnect
