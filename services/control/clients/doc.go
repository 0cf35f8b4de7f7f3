// Package clients tests the control plane's clients in other languages, each in its folder, while replicas are killed.
// It has tests only.
package clients
