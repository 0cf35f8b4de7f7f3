//go:build !goexperiment.jsonv2

package codec

// newV2 returns nil: the tool chain's encoding/json/v2 is left out.
func newV2() *Codec { return nil }
