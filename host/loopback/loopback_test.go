package loopback

import "testing"

func TestOnly(t *testing.T) {
	for address, allowed := range map[string]bool{
		"127.0.0.1:80": true, "127.8.9.10:80": true, "[::1]:80": true, "[::ffff:127.0.0.1]:80": true,
		"10.0.0.1:80": false, "0.0.0.0:80": false, "[::]:80": false, "[fe80::1%lo]:80": false, "localhost:80": false, "": false,
	} {
		if err := Dialer(false).Control("tcp", address, nil); (err == nil) != allowed {
			t.Errorf("%q: %v", address, err)
		}
	}
	if Dialer(true).Control != nil {
		t.Error("any host is refused")
	}
}
