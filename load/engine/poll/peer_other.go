//go:build !linux

package poll

// PeerEnded is Linux's. Other systems report that the peer will send no more as HangUp.
const PeerEnded = 0
