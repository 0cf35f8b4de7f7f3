package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"dyno/internal/command"
	"dyno/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// All formats read what they wrote, and all figures are there.
func TestPrograms(t *testing.T) {
	for name := range codecs {
		for _, args := range []string{"message --bytes 512 --kept 10 --duration 1ms", "rate --rate 1000 --warmup 10ms --duration 30ms --reads 2"} {
			var stdout, stderr bytes.Buffer
			if code := command.Main(t.Context(), newCommand(), append(strings.Fields(args), "--format", name), &stdout, &stderr); code != 0 {
				t.Fatalf("%s: exit code %d: %s", name, code, &stderr)
			}
			var got map[string]float64
			if err := json.Unmarshal(stdout.Bytes(), &got); err != nil {
				t.Fatal(err)
			}
			for figure, value := range got {
				if value < 0 || value == 0 && figure != "late_share" && figure != "collections_per_second" {
					t.Errorf("%s: %s: %s is %v", name, args, figure, value)
				}
			}
		}
	}
}
