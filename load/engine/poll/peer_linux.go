//go:build portable

package poll

import "golang.org/x/sys/unix"

// PeerEnded says that the peer will send no more.
const PeerEnded = unix.POLLRDHUP
