package config

import "testing"

// A unit that is read is in range, and is read the same from how it is shown.
func FuzzUnits(f *testing.F) {
	for _, s := range []string{"30s", "1h30m", "1.5s", "30", "-1s", "1d", "9999999999h", "1ns", "always", "0s", "512KiB", "0B", "999999999999999TiB", "1 KiB", "1e3s", "１s", "1µs", "1μs"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if d, err := parseDuration(text); err == nil {
			if again, err := parseDuration(d.String()); d < 0 || err != nil || again != d {
				t.Errorf("%q is %v, which is read as %v (%v)", text, d, again, err)
			}
		}
		if n, err := parseSize(text); err == nil {
			if again, err := parseSize(n.String()); n <= 0 || err != nil || again != n {
				t.Errorf("%q is %v, which is read as %v (%v)", text, n, again, err)
			}
		}
		if s, err := parseSync(text); err == nil {
			if again, err := parseSync(s.String()); s.Every < 0 || err != nil || again != s {
				t.Errorf("%q is %v, which is read as %v (%v)", text, s, again, err)
			}
		}
	})
}
